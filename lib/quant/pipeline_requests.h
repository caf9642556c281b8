// What can be asked of the pipeline together.
#pragma once

#include "lib/quant/pipeline.h"

namespace hif8 {

// Throws kUsage for a goal or a study without the data that it needs, or beside what contradicts
// it.
void CheckRequests(const PipelineInputs& inputs, const PipelineOptions& options);

}  // namespace hif8
