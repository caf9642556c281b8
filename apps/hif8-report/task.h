// What a command line of hif8-report asks for, told from its arguments.
#pragma once

#include "apps/common/parse.h"

namespace hif8 {

enum class ReportTask {
  kOneRun,     // hif8-report OUT
  kTwoRuns,    // hif8-report OUT BASELINE: both hold a report
  kTwoModels,  // hif8-report ORIGINAL QUANTIZED: any other pair
  kInspect     // hif8-report inspect MODEL
};

// The positionals are OUT and OTHER; OUT is given. A folder named "inspect" is meant with
// "./inspect" or without a second argument.
ReportTask TaskOf(const cli::ParsedOptions& options);

}  // namespace hif8
