#include "lib/quant/pipeline_requests.h"

#include <string>

#include "lib/core/error.h"
#include "lib/quant/compensation.h"

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
  const NetworkErrors measured = inputs.source->network_errors();
  if (measured == NetworkErrors::kNone) {
    throw UsageError("a goal is about the whole network, and captured inputs of layers run none",
                     "give --data instead of --activations");
  }
  const std::string& metric = options.auto_goal->metric;
  const bool of_tokens = metric == "perplexity" || metric == "loss_gap_percent";
  if (of_tokens && measured != NetworkErrors::kTokens) {
    throw UsageError("goal " + options.auto_goal->text + ": " + metric +
                         " is measured of a language model's checkpoint only",
                     "known for this model: network_sqnr, network_cosine, argmax_agreement");
  }
  const bool propagated = inputs.config.propagate == Propagate::kQuantized;
  if (propagated || inputs.config.mse.objective == MseObjective::kOutput) {
    const std::string key = propagated ? "propagate: quantized" : "mse.objective: output";
    throw UsageError(key +
                         " chooses scales for the layers that are quantized, so that layers "
                         "cannot be chosen by their scales",
                     "leave out --auto, or " + key);
  }
}

void CheckCompensation(const PipelineInputs& inputs, const QuantPlan& plan) {
  if (inputs.source != nullptr || !WantsCompensation(plan)) return;
  throw UsageError(
      "weights.rounding: compensated looks at the layers' inputs, and no data was given",
      "give --data, or leave the key out");
}

}  // namespace hif8
