// HiFloat8 (HiF8): an 8-bit format whose precision tapers away from 1.
// Source: "Ascend HiFloat8 Format for Deep Learning", arXiv 2409.16626.
//
// Range: +-2^-22 ... +-2^15 (32768), 38 binades; zero (no negative zero), NaN, +-Inf.
// Precision by binary exponent e, implied leading 1 included:
//   |e| <= 3: 4 significant bits;  4 ... 7: 3;  8 ... 15: 2;  -22 ... -16: 1 (powers of two only).
//
// Layout, most significant bit first: sign S, dot D, exponent E, mantissa M.
//   D      E bits  M bits  exponents       value
//   11     4       1       +-8 ... +-15    +-2^E (1 + M/2)
//   10     3       2       +-4 ... +-7     +-2^E (1 + M/4)
//   01     2       3       +-2, +-3        +-2^E (1 + M/8)
//   001    1       3       +-1             +-2^E (1 + M/8)
//   0001   0       3       0               +-(1 + M/8)
//   0000   0       3       denormal        +-2^(M - 23), M = 1 ... 7
// E is sign (1 = negative) and magnitude; the magnitude's leading 1 is implied.
// 0x00 zero, 0x80 NaN, 0x6F +Inf, 0xEF -Inf.
//
// Conversion rounds to nearest, ties away from zero, once and from all bits of the source. From
// 1.25 * 2^15 = 40960 on a finite value overflows: to +-32768, or to +-Inf in infinity mode.
// Infinities stay infinite in both modes, NaN becomes NaN, magnitudes below 2^-23 become zero.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/numeric/number_format.h"

namespace hif8 {

// Returns the value of a code, from its fields.
float DecodeHif8(uint8_t code);
// Returns the code of x, by the bits of x: slow and plain, the oracle of the vector path.
uint8_t EncodeHif8(float x, Overflow overflow);

// Returns the format "hif8".
std::shared_ptr<const NumberFormat> MakeHif8Format();

}  // namespace hif8
