// hif8-calibrate merge: joins the outputs of --shards, or statistics files.
#pragma once

#include "apps/common/program.h"

namespace hif8 {

// The word after the program's name that stands for it.
inline constexpr const char* kMergeCommand = "merge";

cli::Program MergeProgram();

}  // namespace hif8
