// NVFP4: elements FP4 E2M1 (see mx.h), groups of 16 along the reduction axis share a scale that is
// an FP8 E4M3 number (see fp8.h), and every scale of a tensor is divided by one fp32 number:
//   global scale = 448 * 6 / amax of the tensor
//   scale        = E4M3(amax of the group / 6 * global scale), at least 2^-9
//   value        = element * scale / global scale
// An activation's global scale is chosen before the model runs, the scales of its groups are found
// when it runs.
#pragma once

#include <memory>

#include "lib/numeric/number_format.h"

namespace hif8 {

std::shared_ptr<const NumberFormat> MakeNvfp4Format();

}  // namespace hif8
