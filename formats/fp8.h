// The two 8-bit floating-point formats of the OCP specification "OFP8", revision 1.0.
//
// E4M3 (FN): 4 exponent bits, bias 7; range +-2^-9 ... +-448, 4 significant bits from 2^-6 on;
//   zero of either sign, NaN 0x7F and 0xFF, no infinity.
// E5M2: 5 exponent bits, bias 15; range +-2^-16 ... +-57344, 3 significant bits from 2^-14 on;
//   zero of either sign, infinities 0x7C and 0xFC, NaN above them.
// Both round to nearest, ties to even; saturating conversion takes infinities to the largest value.
#pragma once

#include <memory>

#include "formats/minifloat.h"

namespace hif8 {

inline constexpr Minifloat kE4M3{4, 3, 7, Specials::kNanOnly};
inline constexpr Minifloat kE5M2{5, 2, 15, Specials::kIeee};

std::shared_ptr<const NumberFormat> MakeFp8E4M3Format();
std::shared_ptr<const NumberFormat> MakeFp8E5M2Format();
// E4M3 with an fp32 scale per 128 x 128 block of a weight and per 1 x 128 of an activation
// (DeepSeek-V3).
std::shared_ptr<const NumberFormat> MakeFp8E4M3BlockFormat();

}  // namespace hif8
