// The report's `run` object: all that may differ between two runs with the same
// result.
#pragma once

#include "apps/common/parse.h"
#include "lib/quant/pipeline.h"
#include "lib/report/report.h"

namespace hif8 {

// Records which program ran, where and when.
void AddProgramInfo(const cli::ParsedOptions& options, RunReport* run);
// Records which program ran, where and when, and what the pipeline did.
void AddRunInfo(const cli::ParsedOptions& options, const PipelineResult& result, Report* report);

}  // namespace hif8
