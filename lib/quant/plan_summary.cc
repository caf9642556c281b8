#include <limits>

#include "lib/quant/plan.h"

namespace hif8 {

namespace {

Coverage CoverageOf(const Model& model, const QuantPlan& plan) {
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

}  // namespace

const OperandPlan* QuantPlan::FindActivation(int index) const {
  const auto found = activations.find(index);
  return found == activations.end() ? nullptr : &found->second;
}

bool QuantPlan::IsWeightOnly(const Model& model, size_t layer) const {
  const Layer& info = model.layers()[layer];
  return layers[layer].quantized && info.weight >= 0 && info.activation >= 0 &&
         FindActivation(info.activation) == nullptr;
}

uint64_t StoredBytes(const WeightPlan& plan) {
  const bool bf16 = plan.params.scale_dtype == ScaleDType::kBF16;
  const size_t scale = plan.format->ScalesFollowAmax() ? 1 : bf16 ? 2 : 4;
  const size_t global = plan.format->HasGlobalScale() ? 4 : 0;
  const uint64_t code_bits = plan.layout.size() * static_cast<uint64_t>(plan.format->bits());
  return (code_bits + 7) / 8 + plan.layout.scale_count() * scale + global;
}

PlanSummary Summarize(const Model& model, const QuantPlan& plan) {
  PlanSummary summary;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const bool cache = model.layers()[i].kind == LayerKind::kCache;
    const size_t quantized = plan.layers[i].quantized ? 1 : 0;
    summary.layers += cache ? 0 : 1;
    (cache ? summary.caches : summary.quantized) += quantized;
    summary.weight_only += plan.IsWeightOnly(model, i) ? 1 : 0;
  }
  for (size_t i = 0; i < model.weights().size(); ++i) {
    const Weight& weight = model.weights()[i];
    const uint64_t before = weight.size() * DTypeSize(weight.dtype);
    const auto planned = plan.weights.find(static_cast<int>(i));
    summary.bytes_before += before;
    summary.bytes_after += planned == plan.weights.end() ? before : StoredBytes(planned->second);
  }
  summary.coverage = CoverageOf(model, plan);
  return summary;
}

}  // namespace hif8
