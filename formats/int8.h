// Integers as two's complement. int8: -127 ... 127; -128 is never written. int4: -8 ... 7, in the
// lower half of a code; for files that other programs wrote.
// Both round to nearest, ties to even, and saturate, infinities too; NaN becomes 0.
#pragma once

#include <memory>

#include "lib/numeric/number_format.h"

namespace hif8 {

std::shared_ptr<const NumberFormat> MakeInt8Format();
std::shared_ptr<const NumberFormat> MakeInt4Format();

}  // namespace hif8
