// hif8-calibrate: chooses scales and writes the quantized model.
#pragma once

#include "apps/common/program.h"

namespace hif8 {

cli::Program CalibrateProgram();

}  // namespace hif8
