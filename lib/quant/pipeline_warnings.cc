#include "lib/quant/pipeline_warnings.h"

#include <algorithm>

namespace hif8 {

std::vector<std::string> NonFiniteWarnings(const std::string& tensor, const TensorStats& stats) {
  const uint64_t bad = stats.nan_count() + stats.inf_count();
  if (bad == 0) return {};
  return {"tensor '" + tensor + "': " + std::to_string(stats.nan_count()) + " NaN and " +
          std::to_string(stats.inf_count()) + " infinite of " +
          std::to_string(stats.count() + bad) + " values were left out of the statistics"};
}

std::vector<std::string> NonFiniteWarnings(const std::vector<OutputMeasurement>& outputs) {
  std::vector<std::string> warnings;
  for (const OutputMeasurement& output : outputs) {
    const uint64_t bad = output.error.non_finite();
    if (bad == 0) continue;
    warnings.push_back(
        "network output '" + output.name + "': " + std::to_string(bad) + " of " +
        std::to_string(output.error.count() + bad) +
        " values were not finite in one of the networks and are left out of its errors");
  }
  return warnings;
}

std::vector<std::string> UnobservedWarnings(const Model& model, const QuantPlan& plan,
                                            const std::vector<std::string>& layers) {
  std::vector<std::string> warnings;
  for (const std::string& name : layers) {
    const auto layer = std::find_if(model.layers().begin(), model.layers().end(),
                                    [&](const Layer& known) { return known.name == name; });
    const auto at = static_cast<size_t>(layer - model.layers().begin());
    const std::string reason = at < plan.layers.size() ? plan.layers[at].reason : "";
    warnings.push_back("layer '" + name + "' stays in high precision: " + reason);
  }
  return warnings;
}

std::vector<std::string> CoverageWarnings(const Coverage& coverage) {
  if (coverage.unknown_macs == 0) return {};
  return {"multiply-adds of " + std::to_string(coverage.unknown_macs) +
          " convolutions are not known; coverage counts those of the other layers"};
}

}  // namespace hif8
