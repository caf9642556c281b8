#include "lib/quant/format_comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "lib/core/memory.h"
#include "lib/numeric/block_scale.h"
#include "lib/quant/weight_quantizer.h"

namespace hif8 {
namespace {

// One scale per tile, from the largest finite magnitude in it.
std::vector<float> ScalesOfTiles(const TensorView& tensor, const TileLayout& layout,
                                 const NumberFormat& format, ScaleEncoding encoding) {
  std::vector<float> scales(layout.scale_count());
  ForEachTile(tensor, layout, [&](size_t index, std::span<const float> values) {
    if (encoding == ScaleEncoding::kE8M0) {
      scales[index] = E8M0Scale(values, format);
      return;
    }
    float amax = 0;
    for (const float v : values) {
      if (std::isfinite(v)) amax = std::max(amax, std::fabs(v));
    }
    scales[index] = ScaleFromReference(amax, amax, format.DefaultTarget(), {});
  });
  return scales;
}

// The weight as [batch, outer, channels, inner]; the layer sums over `inner`, or over `outer` where
// channels interleave.
TileLayout WeightTiles(const ChannelLayout& channels, TileScales::Tile tile) {
  const auto n = [](size_t size) { return static_cast<int64_t>(size); };
  const Shape shape = {n(channels.batch), n(channels.outer), n(channels.channels),
                       n(channels.inner)};
  return TileLayout::Tiles(shape, 2, channels.inner > 1 ? 3 : 1, tile);
}

TileLayout ActivationTiles(const Shape& shape, bool channels_first, TileScales::Tile tile) {
  const size_t rank = shape.size();
  if (rank < 2)
    return TileLayout::Tiles({1, static_cast<int64_t>(ElementCount(shape))}, 0, 1, tile);
  const size_t input_axis = channels_first ? 1 : rank - 1;
  return TileLayout::Tiles(shape, input_axis == 0 ? 1 : input_axis - 1, input_axis, tile);
}

ErrorMetrics TileError(const TensorView& tensor, const TileLayout& layout,
                       const NumberFormat& format, ScaleEncoding encoding, std::span<const float> x,
                       std::span<float> y) {
  const std::vector<float> scales = ScalesOfTiles(tensor, layout, format, encoding);
  QuantizeDequantizeTiles(format, x, layout, scales, y);
  ErrorMetrics error;
  error.Add(x, y);
  return error;
}

// The plan's numbers for another format: its own target.
ScaleParams ParamsFor(const OperandPlan& plan, const NumberFormat& format) {
  ScaleParams params = plan.params;
  if (&format != plan.format) params.target = format.DefaultTarget();
  return params;
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
      const TensorStats& record = stats.at(static_cast<size_t>(index));
      const ScaleChoice choice = operand.rule->Solve(record, *format, ParamsFor(operand, *format));
      state.scales.push_back(choice.scale);
    }
    activations_.emplace(index, std::move(state));
  }
  for (const Layer& layer : model_.layers()) {
    const auto at = activations_.find(layer.activation);
    if (at != activations_.end() && layer.op.starts_with("Conv")) at->second.channels_first = true;
  }
}

std::vector<float> FormatComparison::DecodedWeight(int index, int number) const {
  const Weight& weight = model_.weights()[static_cast<size_t>(index)];
  const WeightPlan& plan = plan_.weights.at(index);
  const Tensor tensor = model_.ReadWeight(index);
  std::vector<float> buffer;
  const std::span<const float> x = AsFloats(tensor.view, &buffer);
  std::vector<float> y(x.begin(), x.end());
  if (number < 0) return y;
  const NumberFormat& format = *formats_[static_cast<size_t>(number)];
  if (const std::optional<TileScales> tiles = format.tile_scales()) {
    const TileLayout layout = WeightTiles(weight.channels, tiles->weight);
    const std::vector<float> scales = ScalesOfTiles(tensor.view, layout, format, tiles->encoding);
    QuantizeDequantizeTiles(format, x, layout, scales, y);
    return y;
  }
  WeightScales solved = SolveWeight(weight.name, tensor.view, plan.layout, *plan.rule, format,
                                    ParamsFor(plan, format));
  DecodeWeight(EncodeWeight(tensor.view, plan.layout, std::move(solved.scales), format), format, y);
  return y;
}

ErrorMetrics FormatComparison::WeightError(const TensorView& tensor, int index,
                                           const NumberFormat& format) const {
  const Weight& weight = model_.weights()[static_cast<size_t>(index)];
  const WeightPlan& plan = plan_.weights.at(index);
  if (const std::optional<TileScales> tiles = format.tile_scales()) {
    std::vector<float> buffer;
    const std::span<const float> x = AsFloats(tensor, &buffer);
    std::vector<float> y(x.size());
    return TileError(tensor, WeightTiles(weight.channels, tiles->weight), format, tiles->encoding,
                     x, y);
  }
  WeightScales solved =
      SolveWeight(weight.name, tensor, plan.layout, *plan.rule, format, ParamsFor(plan, format));
  return MeasureWeight(tensor, EncodeWeight(tensor, plan.layout, std::move(solved.scales), format),
                       format);
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
    if (const std::optional<TileScales> tiles = format.tile_scales()) {
      const TileLayout layout = ActivationTiles(x.shape, state.channels_first, tiles->activation);
      state.errors[f].Merge(TileError(x, layout, format, tiles->encoding, values, y_buffer_));
    } else {
      format.QuantizeDequantize(values, ScaleOperand::One(state.scales[f]), y_buffer_);
      state.errors[f].Add(values, y_buffer_);
    }
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
