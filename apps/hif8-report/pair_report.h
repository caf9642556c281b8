// A report made from the files of an original and a quantized model.
#pragma once

#include <string>

#include "lib/core/log.h"
#include "lib/report/report.h"

namespace hif8 {

// Weights are measured from both models' files; nothing is run, so that only they are. `unmatched`
// lists what has no partner, `run.warnings` what looks wrong.
Report ReportOfPair(const std::string& original, const std::string& quantized, LogSink& log);

}  // namespace hif8
