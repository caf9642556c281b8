// Symmetric 8-bit integers: -127 ... 127 as two's complement; -128 is never written.
// Rounds to nearest, ties to even; saturates, infinities too; NaN becomes 0.
#pragma once

#include <memory>

#include "lib/numeric/number_format.h"

namespace hif8 {

std::shared_ptr<const NumberFormat> MakeInt8Format();

}  // namespace hif8
