// How many values have which binary exponent, by vectors of the instruction set that is found at
// run time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hif8 {

// Values per exponent field of fp32: 0 for zeros and subnormal values, 255 for infinity and NaN.
using ExponentFields = std::array<uint64_t, 256>;
// A value whose significand field is smaller than `significand` counts with the exponent below its
// own, and as 0 where there is none.
void CountExponents(const float* x, size_t n, uint32_t significand, ExponentFields* counts);

}  // namespace hif8
