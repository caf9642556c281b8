#include "lib/quant/compensation.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lib/core/memory.h"
#include "lib/quant/compensated_rounding.h"
#include "lib/quant/weight_quantizer.h"

namespace hif8 {
namespace {

// A weight as the matrix that its layer multiplies by: rows are outputs.
struct MatrixForm {
  size_t rows = 0;
  size_t inputs = 0;
  bool turned = false;  // stored as [inputs, rows]
};

MatrixForm FormOf(const ChannelLayout& channels) {
  return {channels.channels, channels.channel_size(), channels.outer > 1};
}

// Why a layer's weight cannot be rounded for its outputs, or empty.
std::string UnsuitableBecause(const Layer& layer, const Weight& weight) {
  static const std::set<std::string> kOperators = {"Linear", "MatMul", "Gemm", "Conv"};
  if (!kOperators.contains(layer.op)) return "operator " + layer.op + " is no matrix product";
  if (layer.activation < 0) return "its input is not observed";
  if (!layer.beside.empty()) return "no run reaches it";
  const bool kernel =
      layer.op == "Conv" && std::any_of(weight.shape.begin() + 2, weight.shape.end(),
                                        [](int64_t edge) { return edge != 1; });
  if (kernel) return "a kernel of more than one element";
  const ChannelLayout& channels = weight.channels;
  if (channels.batch != 1 || (channels.outer > 1 && channels.inner > 1)) {
    return "its outputs do not follow from one matrix";
  }
  return {};
}

// The widest block, a power of two, for which all moments fit; at least 128, the widest tile.
size_t BlockWithin(const std::map<int, size_t>& inputs, uint64_t memory) {
  constexpr size_t kLeast = 128;
  size_t block = size_t{1} << 20;
  const auto bytes = [&] {
    uint64_t sum = 0;
    for (const auto& [activation, n] : inputs) sum += MomentSums::Bytes(n, block);
    return sum;
  };
  while (block > kLeast && bytes() > memory) block /= 2;
  return block;
}

// Values of an activation as rows [n, inputs] of what its layers sum over.
std::vector<float> RowsOf(const Shape& shape, size_t axis, std::vector<float> values) {
  size_t outer = 1;
  size_t inner = 1;
  const auto inputs = static_cast<size_t>(shape[axis]);
  for (size_t i = 0; i < axis; ++i) outer *= static_cast<size_t>(shape[i]);
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= static_cast<size_t>(shape[i]);
  if (inner == 1) return values;
  std::vector<float> rows(values.size());
  for (size_t o = 0; o < outer; ++o) {
    for (size_t k = 0; k < inputs; ++k) {
      const float* const from = values.data() + (o * inputs + k) * inner;
      float* const to = rows.data() + o * inner * inputs + k;
      for (size_t i = 0; i < inner; ++i) to[i * inputs] = from[i];
    }
  }
  return rows;
}

// Inputs [begin, begin + count) of all rows, row-major.
std::vector<float> Columns(const FloatSource& weight, const MatrixForm& form, size_t begin,
                           size_t count) {
  std::vector<float> values(form.rows * count);
  std::vector<float> buffer;
  if (form.turned) {
    for (size_t k = 0; k < count; ++k) {
      const auto row = weight.Floats((begin + k) * form.rows, form.rows, &buffer);
      for (size_t r = 0; r < form.rows; ++r) values[r * count + k] = row[r];
    }
    return values;
  }
  for (size_t r = 0; r < form.rows; ++r) {
    const auto row = weight.Floats(r * form.inputs + begin, count, &buffer);
    std::copy(row.begin(), row.end(), values.begin() + static_cast<ptrdiff_t>(r * count));
  }
  return values;
}

size_t Tiles(size_t length, size_t edge) {
  return edge == 0 || edge >= length ? 1 : (length + edge - 1) / edge;
}

// The scales of the tiles that cover those inputs, in the order of a matrix [rows, inputs].
std::vector<float> ScalesOf(std::span<const float> scales, const MatrixForm& form,
                            TileScales::Tile tile, size_t begin, size_t count) {
  const size_t rows = Tiles(form.rows, tile.rows);
  const size_t all = Tiles(form.inputs, tile.inputs);
  const size_t first = tile.inputs >= form.inputs ? 0 : begin / tile.inputs;
  const size_t some = Tiles(count, tile.inputs);
  std::vector<float> result;
  result.reserve(rows * some);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t k = first; k < first + some; ++k) {
      result.push_back(scales[form.turned ? k * rows + r : r * all + k]);
    }
  }
  return result;
}

}  // namespace

bool WantsCompensation(const QuantPlan& plan) {
  return std::any_of(plan.weights.begin(), plan.weights.end(), [](const auto& entry) {
    return entry.second.config.rounding == WeightRounding::kCompensated;
  });
}

Compensation::Compensation(const Model& model, const QuantPlan& plan,
                           std::map<int, FakeQuantize> activations, uint64_t memory)
    : model_(model), plan_(plan), activations_(std::move(activations)) {
  std::map<int, size_t> inputs;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const Layer& layer = model.layers()[i];
    const auto weight = plan.weights.find(layer.weight);
    if (!plan.layers[i].quantized || weight == plan.weights.end()) continue;
    if (weight->second.config.rounding != WeightRounding::kCompensated) continue;
    const Weight& info = model.weights()[static_cast<size_t>(layer.weight)];
    const std::string why = UnsuitableBecause(layer, info);
    if (!why.empty()) {
      unsuitable_[layer.weight] = why;
    } else if (!input_of_.emplace(layer.weight, layer.activation).second) {
      unsuitable_[layer.weight] = "several layers share it";
    } else {
      inputs[layer.activation] = FormOf(info.channels).inputs;
    }
  }
  const size_t block = BlockWithin(inputs, memory);
  for (const auto& [activation, n] : inputs) sums_.emplace(activation, MomentSums(n, block));
}

std::vector<int> Compensation::Wanted() const {
  std::vector<int> wanted;
  for (const auto& [activation, sums] : sums_) wanted.push_back(activation);
  return wanted;
}

void Compensation::Add(int activation, const TensorView& x) {
  const auto sums = sums_.find(activation);
  if (sums == sums_.end() || problems_.contains(activation)) return;
  const int own = model_.activations()[static_cast<size_t>(activation)].input_axis;
  const int rank = static_cast<int>(x.shape.size());
  const int axis = own < 0 ? own + rank : own;
  if (axis < 0 || axis >= rank ||
      static_cast<size_t>(x.shape[static_cast<size_t>(axis)]) != sums->second.inputs()) {
    problems_[activation] = "its input of shape " + ShapeText(x.shape) + " is no row of the matrix";
    return;
  }
  std::vector<float> buffer;
  const std::span<const float> values = AsFloats(x, &buffer);
  std::vector<float> rounded(values.begin(), values.end());
  if (const auto how = activations_.find(activation); how != activations_.end()) {
    how->second.Apply(axis, x.shape, values, rounded);
  }
  sums->second.Add(RowsOf(x.shape, static_cast<size_t>(axis), std::move(rounded)));
}

std::vector<uint8_t> Compensation::Round(int weight, const FloatSource& values,
                                         std::span<const float> scales, std::string* note) const {
  const WeightPlan& plan = plan_.weights.at(weight);
  const auto nearest = [&](const std::string& why) {
    *note = "rounded to nearest: " + why;
    return EncodeWeight(values, plan.layout, {scales.begin(), scales.end()}, *plan.format).codes;
  };
  if (const auto why = unsuitable_.find(weight); why != unsuitable_.end()) {
    return nearest(why->second);
  }
  const int activation = input_of_.at(weight);
  if (const auto why = problems_.find(activation); why != problems_.end()) {
    return nearest(why->second);
  }
  const MomentSums& sums = sums_.at(activation);
  const MatrixForm form = FormOf(model_.weights()[static_cast<size_t>(weight)].channels);
  std::vector<uint8_t> codes(form.rows * form.inputs);
  for (size_t index = 0; index < sums.blocks(); ++index) {
    const SecondMoments moments = sums.Block(index);
    if (TooFewRows(moments)) {
      return nearest(std::to_string(moments.rows) + " rows of data are too few for " +
                     std::to_string(sums.inputs()) + " inputs");
    }
    const size_t begin = index * sums.block();
    const std::vector<float> columns = Columns(values, form, begin, moments.inputs);
    const std::vector<float> tiles = ScalesOf(scales, form, plan.tile, begin, moments.inputs);
    const std::vector<uint8_t> rounded = RoundCompensated(
        *plan.format, {columns, form.rows, moments.inputs, tiles, plan.tile}, moments);
    for (size_t r = 0; r < form.rows; ++r) {
      for (size_t k = 0; k < moments.inputs; ++k) {
        const size_t at = form.turned ? (begin + k) * form.rows + r : r * form.inputs + begin + k;
        codes[at] = rounded[r * moments.inputs + k];
      }
    }
  }
  *note = "rounded for the layer's output";
  if (sums.blocks() > 1) {
    *note += ", in blocks of " + std::to_string(sums.block()) +
             " inputs: more moments do not fit into --memory-limit";
  }
  return codes;
}

}  // namespace hif8
