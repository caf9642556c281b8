// The study of delayed scaling as a report's plain data.
#pragma once

#include <optional>

#include "lib/quant/pipeline.h"
#include "lib/report/report.h"

namespace hif8 {

// Reports the study of delayed scaling; nothing when there was none.
std::optional<DelayedStudyReport> MakeDelayedStudyReport(const Model& model,
                                                         const PipelineResult& result);

}  // namespace hif8
