// hif8-calibrate check: compares a checkpoint's network, as its description has it, with a recorded
// run.
#pragma once

#include "apps/common/program.h"

namespace hif8 {

// The word after the program's name that stands for it.
inline constexpr const char* kCheckCommand = "check";

cli::Program CheckProgram();

}  // namespace hif8
