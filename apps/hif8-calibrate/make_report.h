// From what the pipeline found to the report's plain data.
#pragma once

#include "lib/model/model.h"
#include "lib/quant/pipeline.h"
#include "lib/report/report.h"

namespace hif8 {

// Returns everything but `recipe` and `run`, which the caller knows.
Report MakeReport(const Model& model, const PipelineResult& result);

// Reports what a measurement says of the network as a whole.
NetworkReport MakeNetworkReport(const Measurement& measurement);

}  // namespace hif8
