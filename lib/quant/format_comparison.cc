#include "lib/quant/format_comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "lib/core/memory.h"
#include "lib/numeric/tile_scaling.h"
#include "lib/quant/weight_quantizer.h"

namespace hif8 {
namespace {

// The plan's numbers for another format: its own target.
ScaleParams ParamsFor(const OperandPlan& plan, const NumberFormat& format) {
  ScaleParams params = plan.params;
  if (&format != plan.format) params.target = format.DefaultTarget();
  return params;
}

// Scales of the activation's tiles where the format prescribes them, or the plan wants them of any
// format.
std::optional<TileScaling> DynamicScaling(const NumberFormat& format, const ScaleParams& params,
                                          const OperandPlan& plan) {
  if (const std::optional<TileScales> tiles = format.tile_scales()) {
    return TileScaling{tiles->activation, tiles->encoding, format.DefaultTarget()};
  }
  if (!plan.dynamic || plan.format->tile_scales()) return std::nullopt;
  TileScaling scaling = *plan.dynamic;
  scaling.target = ResolveTarget(format, params);
  return scaling;
}

}  // namespace

FormatComparison::FormatComparison(const Model& model, const QuantPlan& plan,
                                   std::vector<const NumberFormat*> formats,
                                   const std::vector<TensorStats>& stats,
                                   const ActivationSource* source)
    : model_(model), plan_(plan), formats_(std::move(formats)) {
  if (formats_.empty() || stats.empty()) return;
  if (source != nullptr) {
    outputs_.emplace(model_, plan_, *source, formats_.size(),
                     [this](int weight, int format) { return DecodedWeight(weight, format); });
  }
  for (const auto& [index, operand] : plan_.activations) {
    ActivationState state;
    state.errors.resize(formats_.size());
    for (const NumberFormat* format : formats_) {
      state.dynamic.push_back(DynamicScaling(*format, ParamsFor(operand, *format), operand));
      const TensorStats& record = stats.at(static_cast<size_t>(index));
      state.scales.emplace_back();
      if (operand.rule->NeedsData() && record.count() == 0) continue;
      state.scales.back() = operand.rule->Solve(record, *format, ParamsFor(operand, *format)).scale;
    }
    activations_.emplace(index, std::move(state));
  }
}

std::vector<float> FormatComparison::DecodedWeight(int index, int number) const {
  const Tensor tensor = model_.ReadWeight(index);
  std::vector<float> buffer;
  const std::span<const float> x = AsFloats(tensor.view, &buffer);
  std::vector<float> y(x.begin(), x.end());
  if (number < 0) return y;
  const NumberFormat& format = *formats_[static_cast<size_t>(number)];
  DecodeWeight(Encoded(tensor.view, index, format), format, y);
  return y;
}

EncodedWeight FormatComparison::Encoded(const TensorView& tensor, int index,
                                        const NumberFormat& format) const {
  const Weight& weight = model_.weights()[static_cast<size_t>(index)];
  const WeightPlan& plan = plan_.weights.at(index);
  const std::optional<TileScales> tiles = format.tile_scales();
  // The plan's own layout belongs to its format where that prescribes one.
  const bool prescribed = plan.format->tile_scales().has_value();
  const TileLayout layout = tiles        ? WeightTiles(weight.channels, tiles->weight)
                            : prescribed ? TileLayout(weight.channels)
                                         : plan.layout;
  WeightScales solved =
      SolveWeight(weight.name, tensor, layout, *plan.rule, format, ParamsFor(plan, format));
  return EncodeWeight(tensor, layout, std::move(solved.scales), format);
}

ErrorMetrics FormatComparison::WeightError(const TensorView& tensor, int index,
                                           const NumberFormat& format) const {
  return MeasureWeight(tensor, Encoded(tensor, index, format), format);
}

void FormatComparison::CompareWeights() {
  for (const auto& [index, plan] : plan_.weights) {
    const Weight& weight = model_.weights()[static_cast<size_t>(index)];
    RequireMemory(weight.size() * (2 * sizeof(float) + 1), MemoryLimit(),
                  "tensor '" + weight.name + "'",
                  "its values in fp32, before and after, and its codes");
    const Tensor tensor = model_.ReadWeight(index);
    std::vector<ErrorMetrics>& errors = weights_[index];
    for (const NumberFormat* format : formats_) {
      errors.push_back(WeightError(tensor.view, index, *format));
    }
  }
}

void FormatComparison::AddActivation(int index, const TensorView& x) {
  const auto at = activations_.find(index);
  if (at == activations_.end() || x.size() == 0) return;
  ActivationState& state = at->second;
  const std::span<const float> values = AsFloats(x, &x_buffer_);
  y_buffer_.resize(values.size());
  if (outputs_) outputs_->Begin(index, x.shape, values);
  for (size_t f = 0; f < formats_.size(); ++f) {
    const NumberFormat& format = *formats_[f];
    if (const std::optional<TileScaling>& scaling = state.dynamic[f]) {
      QuantizeDequantizeDynamic(format, *scaling,
                                model_.activations()[static_cast<size_t>(index)].input_axis,
                                x.shape, values, y_buffer_);
    } else if (state.scales[f]) {
      format.QuantizeDequantize(values, ScaleOperand::One(*state.scales[f]), y_buffer_);
    } else {
      continue;
    }
    state.errors[f].Add(values, y_buffer_);
    if (outputs_) outputs_->Add(f, y_buffer_);
  }
}

std::vector<ComparedOperand> FormatComparison::Results() const {
  std::vector<ComparedOperand> results;
  const auto add = [&](const std::string& layer, const std::string& operand,
                       const std::vector<ErrorMetrics>& errors) {
    for (size_t f = 0; f < errors.size(); ++f) {
      if (errors[f].count() == 0) continue;
      results.push_back({layer, operand, std::string(formats_[f]->name()), errors[f]});
    }
  };
  for (size_t i = 0; i < plan_.layers.size(); ++i) {
    if (!plan_.layers[i].quantized) continue;
    const Layer& layer = model_.layers()[i];
    const auto weight = weights_.find(layer.weight);
    if (weight != weights_.end()) add(layer.name, "weight", weight->second);
    const auto activation = activations_.find(layer.activation);
    if (activation == activations_.end()) continue;
    const bool cached = layer.option == "kv_cache";
    const std::string cache = cached && layer.name.ends_with(".k") ? "k" : "v";
    add(layer.name, cached ? cache : "activation", activation->second.errors);
    if (outputs_) add(layer.name, "output", outputs_->Errors(static_cast<int>(i)));
  }
  return results;
}

}  // namespace hif8
