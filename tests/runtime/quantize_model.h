// A model that is one QuantizeDequantizeLinear(x, scale) -> y.
#pragma once

#include "tests/runtime/test_graph.h"

namespace hif8 {

// The function of that name in the model negates x instead, so that a test sees which of the two
// was run: the native operator or the function.
TestGraph QuantizeModel(const Shape& x, const Shape& scale);

// Every bf16 pattern, and fp32 patterns between them (65536 each).
std::vector<float> ManyFloats();

// What the operator should give, one value at a time.
float ExpectedHif8(float x, float scale);

}  // namespace hif8
