#include <limits>

#include "lib/quant/plan.h"

namespace hif8 {

Coverage ComputeCoverage(const Model& model, const QuantPlan& plan) {
  Coverage coverage;
  uint64_t elements = 0;
  for (const auto& [index, weight] : plan.weights) elements += weight.layout.size();
  const uint64_t all = model.parameter_count();
  coverage.parameters = all > 0 ? static_cast<double>(elements) / static_cast<double>(all) : 0;
  double macs = 0;
  double all_macs = 0;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const Layer& layer = model.layers()[i];
    all_macs += layer.macs;
    if (layer.op == "Conv" && layer.macs == 0) ++coverage.unknown_macs;
    if (plan.layers[i].quantized) macs += model.layers()[i].macs;
  }
  coverage.macs = all_macs > 0 ? macs / all_macs : std::numeric_limits<double>::quiet_NaN();
  if (all_macs == 0) coverage.unknown_macs = 0;
  return coverage;
}

}  // namespace hif8
