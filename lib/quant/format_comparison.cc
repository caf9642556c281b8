#include "lib/quant/format_comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "lib/core/memory.h"
#include "lib/numeric/scale_codes.h"
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
  if (const TileScales* tiles = format.OwnTiles()) {
    if (&format == plan.format) return plan.dynamic;
    return TileScaling{tiles->activation, format.DefaultTarget()};
  }
  if (!plan.dynamic || plan.format->storage().tiled) return std::nullopt;
  TileScaling scaling = *plan.dynamic;
  scaling.target = ResolveTarget(format, params);
  return scaling;
}

bool ForWeights(const FormatChoice& choice) {
  return choice.rule == nullptr || choice.rule->traits().weights;
}

std::set<int> Caches(const Model& model) {
  std::set<int> caches;
  for (const Layer& layer : model.layers()) {
    if (layer.kind == LayerKind::kCache) caches.insert(layer.activation);
  }
  return caches;
}

}  // namespace

std::string FormatChoice::Name() const {
  std::string name(format->name());
  if (rule != nullptr) name += ":" + std::string(rule->name());
  return name;
}

std::vector<FormatChoice> BesideWritten(std::vector<FormatChoice> choices, const QuantPlan& plan) {
  const auto add = [&](const OperandPlan& operand) {
    const bool known = std::any_of(choices.begin(), choices.end(), [&](const FormatChoice& c) {
      return c.format == operand.format && c.rule == nullptr;
    });
    if (!known) choices.push_back({operand.format, nullptr});
  };
  for (const auto& [index, operand] : plan.weights) add(operand);
  for (const auto& [index, operand] : plan.activations) add(operand);
  return choices;
}

FormatComparison::FormatComparison(const Model& model, const QuantPlan& plan,
                                   std::vector<FormatChoice> choices,
                                   const std::vector<TensorStats>& stats,
                                   const ActivationSource* source,
                                   const std::map<int, ActivationScale>& written)
    : model_(model), plan_(plan), choices_(std::move(choices)) {
  if (choices_.empty() || stats.empty()) return;
  if (source != nullptr) {
    outputs_.emplace(model_, plan_, *source, choices_.size(),
                     [this](int weight, int choice) { return DecodedWeight(weight, choice); });
  }
  const std::set<int> caches = Caches(model_);
  for (const auto& [index, unused] : plan_.activations) {
    ActivationState state;
    state.errors.resize(choices_.size());
    for (const FormatChoice& choice : choices_) {
      state.roundings.push_back(MakeRounding(choice, index, caches.contains(index),
                                             stats.at(static_cast<size_t>(index)), written));
    }
    activations_.emplace(index, std::move(state));
  }
}

std::optional<FakeQuantize> FormatComparison::MakeRounding(
    const FormatChoice& choice, int index, bool cached, const TensorStats& record,
    const std::map<int, ActivationScale>& written) const {
  const OperandPlan& operand = plan_.activations.at(index);
  const NumberFormat& format = *choice.format;
  const Calibrator& rule = choice.rule != nullptr ? *choice.rule : *operand.rule;
  const ScaleParams params = ParamsFor(operand, format);
  const auto known = written.find(index);
  const bool own = choice.rule == nullptr && &format == operand.format && known != written.end();
  if (cached && format.storage().tiled) return {};  // a cache has one static scale
  if (choice.rule != nullptr && cached && !rule.traits().caches) return {};
  if (std::optional<TileScaling> dynamic = DynamicScaling(format, params, operand)) {
    const bool mixed = model_.activations()[static_cast<size_t>(index)].mixed_axes;
    if (mixed || (choice.rule != nullptr && !rule.traits().tiles)) return {};
    if (own) return operand.With(known->second.choice);
    dynamic->global_scale = GlobalScale(format, record.amax(), dynamic->target);
    return FakeQuantize{&format, 1, {}, dynamic};
  }
  if (rule.traits().needs_data && record.count() == 0) return {};
  const ScaleChoice chosen = own ? known->second.choice : rule.Solve(record, format, params);
  FakeQuantize rounding{&format, chosen.scale, {}, {}};
  if (operand.config.clip && rule.traits().needs_data) rounding.clip = chosen.reference;
  return rounding;
}

std::vector<float> FormatComparison::DecodedWeight(int index, int choice) const {
  const Tensor tensor = model_.ReadWeight(index);
  std::vector<float> buffer;
  const std::span<const float> x = AsFloats(tensor.view, &buffer);
  std::vector<float> y(x.begin(), x.end());
  if (choice < 0) return y;
  const FormatChoice& chosen = choices_[static_cast<size_t>(choice)];
  DecodeWeight(Encoded(tensor.view, index, chosen), *chosen.format, y);
  return y;
}

EncodedWeight FormatComparison::Encoded(const TensorView& tensor, int index,
                                        const FormatChoice& choice) const {
  const NumberFormat& format = *choice.format;
  const Weight& weight = model_.weights()[static_cast<size_t>(index)];
  const WeightPlan& plan = plan_.weights.at(index);
  // Tiles belong to a format where it always has them.
  const TileScales* tiles = format.OwnTiles();
  const bool own = &format == plan.format || (tiles == nullptr && !plan.format->storage().tiled);
  const TileLayout layout = own                ? plan.layout
                            : tiles != nullptr ? WeightTiles(weight.channels, tiles->weight)
                                               : TileLayout(weight.channels);
  const Calibrator& rule = choice.rule != nullptr ? *choice.rule : *plan.rule;
  WeightScales solved =
      SolveWeight(weight.name, tensor, layout, rule, format, ParamsFor(plan, format));
  return EncodeWeight(tensor, layout, std::move(solved.scales), format, solved.global_scale);
}

void FormatComparison::CompareWeights() {
  if (choices_.empty()) return;
  for (const auto& [index, plan] : plan_.weights) {
    const Weight& weight = model_.weights()[static_cast<size_t>(index)];
    RequireMemory(weight.size() * (2 * sizeof(float) + 1), MemoryLimit(),
                  "tensor '" + weight.name + "'",
                  "its values in fp32, before and after, and its codes");
    const Tensor tensor = model_.ReadWeight(index);
    std::vector<ErrorMetrics>& errors = weights_[index];
    for (const FormatChoice& choice : choices_) {
      errors.push_back(
          ForWeights(choice)
              ? MeasureWeight(tensor.view, Encoded(tensor.view, index, choice), *choice.format)
              : ErrorMetrics());
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
  for (size_t c = 0; c < choices_.size(); ++c) {
    const std::optional<FakeQuantize>& rounding = state.roundings[c];
    if (!rounding) continue;
    rounding->Apply(model_.activations()[static_cast<size_t>(index)].input_axis, x.shape, values,
                    y_buffer_);
    state.errors[c].Add(values, y_buffer_);
    if (outputs_ && ForWeights(choices_[c])) outputs_->Add(c, y_buffer_);
  }
}

std::vector<ComparedOperand> FormatComparison::Results() const {
  std::vector<ComparedOperand> results;
  const auto add = [&](const std::string& layer, const std::string& operand,
                       const std::vector<ErrorMetrics>& errors) {
    for (size_t c = 0; c < errors.size(); ++c) {
      if (errors[c].count() == 0) continue;
      results.push_back({layer, operand, choices_[c].Name(), errors[c]});
    }
  };
  for (size_t i = 0; i < plan_.layers.size(); ++i) {
    if (!plan_.layers[i].quantized) continue;
    const Layer& layer = model_.layers()[i];
    const auto weight = weights_.find(layer.weight);
    if (weight != weights_.end()) add(layer.name, "weight", weight->second);
    const auto activation = activations_.find(layer.activation);
    if (activation == activations_.end()) continue;
    const bool cached = layer.kind == LayerKind::kCache;
    const std::string cache = cached && layer.name.ends_with(".k") ? "k" : "v";
    add(layer.name, cached ? cache : "activation", activation->second.errors);
    if (outputs_) add(layer.name, "output", outputs_->Errors(static_cast<int>(i)));
  }
  return results;
}

}  // namespace hif8
