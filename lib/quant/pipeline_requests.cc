#include "lib/quant/pipeline_requests.h"

#include <string>

#include "lib/core/error.h"

namespace hif8 {

void CheckRequests(const PipelineInputs& inputs, const PipelineOptions& options) {
  const bool replaced = !options.stats_in.empty() || !options.calibration.empty();
  if (options.delayed_study && (inputs.source == nullptr || replaced)) {
    throw UsageError("--delayed-study watches a pass over the calibration data",
                     replaced ? "leave out --stats-in and --calibration" : "give --data");
  }
  if (!options.auto_goal) return;
  if (inputs.source == nullptr) {
    throw UsageError("a goal needs data that the network is run on",
                     "give --data or --eval-data beside --auto");
  }
  const bool propagated = inputs.config.propagate == "quantized";
  if (propagated || inputs.config.mse.objective == "output") {
    const std::string key = propagated ? "propagate: quantized" : "mse.objective: output";
    throw UsageError(key +
                         " chooses scales for the layers that are quantized, so that layers "
                         "cannot be chosen by their scales",
                     "leave out --auto, or " + key);
  }
}

}  // namespace hif8
