// What can be asked of the pipeline together.
#pragma once

#include "lib/quant/pipeline.h"

namespace hif8 {

// Throws kUsage for a goal or a study without the data that it needs, or beside what contradicts
// it.
void CheckRequests(const PipelineInputs& inputs, const PipelineOptions& options);

// Throws kUsage for weights that are to be rounded with a look at inputs, without data.
void CheckCompensation(const PipelineInputs& inputs, const QuantPlan& plan);

}  // namespace hif8
