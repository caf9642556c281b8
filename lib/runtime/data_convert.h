// Element types of data files against those of a model's inputs. Internal to this module.
#pragma once

#include "lib/core/tensor.h"

namespace hif8 {

enum class Conversion {
  kNone,     // the same type
  kExact,    // every value is kept: fp16 to fp32, int32 to int64, ...
  kBits,     // uint16 holds the bits of bf16, which NumPy does not know
  kRounded,  // between floating-point types, rounded to nearest even
  kRefused   // anything else
};

Conversion ConversionBetween(DType from, DType to);

// Returns the tensor in another type, which must not be refused.
Tensor Convert(const TensorView& view, DType to);

// Tensors of one type and equal trailing dimensions, one after the other along the leading one.
Tensor Concatenate(const std::vector<Tensor>& parts);

}  // namespace hif8
