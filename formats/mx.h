// Microscaling formats (OCP MX v1.0): groups of 32 elements along the reduction axis share a scale
// that is a power of two, 2^(floor(log2 amax) - emax), stored as E8M0.
//
// mxfp8: elements FP8 E4M3 (emax 8), see fp8.h.
// mxfp4: elements FP4 E2M1 (emax 2): 0, 0.5, 1, 1.5, 2, 3, 4, 6 of either sign; neither infinity
//   nor NaN (which becomes 0). Four bits, in the lower half of a code.
// fp4_e2m1: the same elements with scales of any kind, in files that other programs wrote.
// All round to nearest, ties to even, and saturate.
#pragma once

#include <memory>

#include "formats/minifloat.h"

namespace hif8 {

inline constexpr Minifloat kE2M1{2, 1, 1, Specials::kNone};

std::shared_ptr<const NumberFormat> MakeMxfp8Format();
std::shared_ptr<const NumberFormat> MakeMxfp4Format();
std::shared_ptr<const NumberFormat> MakeFp4Format();

}  // namespace hif8
