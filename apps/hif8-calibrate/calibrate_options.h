// The option table of hif8-calibrate, and which recipe keys its flags stand for.
#pragma once

#include <vector>

#include "apps/common/option_table.h"
#include "apps/common/parse.h"
#include "lib/quant/config.h"

namespace hif8 {

cli::ProgramSpec CalibrateSpec();

// Lists what flags (`stronger`) and environment variables (`weaker`) assign to recipe keys.
struct RecipeAssignments {
  std::vector<ConfigAssignment> weaker;
  std::vector<ConfigAssignment> stronger;
};
RecipeAssignments MakeAssignments(const cli::ParsedOptions& options);

}  // namespace hif8
