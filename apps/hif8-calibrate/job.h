// One run of hif8-calibrate, from checked options to an error or a written folder.
#pragma once

#include "apps/common/console.h"
#include "apps/common/parse.h"

namespace hif8 {

void RunJob(const cli::ParsedOptions& options, cli::Console& console);

}  // namespace hif8
