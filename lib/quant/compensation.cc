#include "lib/quant/compensation.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lib/core/memory.h"
#include "lib/core/parallel.h"
#include "lib/quant/compensated_rounding.h"
#include "lib/quant/conv_patches.h"
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

// True for convolutions whose inputs are patches.
bool HasKernel(const Layer& layer, const Weight& weight) {
  if (layer.op != "Conv") return false;
  return (layer.window && layer.window->groups > 1) ||
         std::any_of(weight.shape.begin() + 2, weight.shape.end(),
                     [](int64_t edge) { return edge != 1; });
}

// Why a layer's weight cannot be rounded for its outputs, or empty.
std::string UnsuitableBecause(const Layer& layer, const Weight& weight) {
  static const std::set<std::string> kOperators = {"Linear", "MatMul", "Gemm", "Conv"};
  if (!kOperators.contains(layer.op)) return "operator " + layer.op + " is no matrix product";
  if (layer.activation < 0) return "its input is not observed";
  if (!layer.beside.empty()) return "no run reaches it";
  if (HasKernel(layer, weight) && !layer.window) {
    return "how its kernel goes over the input is not known";
  }
  const ChannelLayout& channels = weight.channels;
  if (channels.batch != 1 || (channels.outer > 1 && channels.inner > 1)) {
    return "its outputs do not follow from one matrix";
  }
  return {};
}

// Moments to be gathered: of how many inputs, and of blocks of how many of them.
struct MomentSize {
  size_t inputs = 0;
  size_t block = 0;

  size_t Within(size_t most) const { return std::min(block, most); }
};

// The widest block, a power of two, for which all moments fit; at least 128, the widest tile.
// Groups of a convolution are never divided.
template <typename Map>
size_t BlockWithin(const Map& wanted, uint64_t memory) {
  constexpr size_t kLeast = 128;
  size_t block = size_t{1} << 20;
  const auto bytes = [&] {
    uint64_t sum = 0;
    for (const auto& [source, w] : wanted) sum += MomentSums::Bytes(w.inputs, w.Within(block));
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

std::string TooFew(const SecondMoments& moments) {
  return std::to_string(moments.rows) + " rows of data are too few for " +
         std::to_string(moments.inputs) + " inputs";
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
  std::map<Source, MomentSize> wanted;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const Layer& layer = model.layers()[i];
    const auto weight = plan.weights.find(layer.weight);
    if (!plan.layers[i].quantized || weight == plan.weights.end()) continue;
    if (weight->second.config.rounding != WeightRounding::kCompensated) continue;
    const Weight& info = model.weights()[static_cast<size_t>(layer.weight)];
    if (const std::string why = UnsuitableBecause(layer, info); !why.empty()) {
      unsuitable_[layer.weight] = why;
      continue;
    }
    const bool kernel = HasKernel(layer, info);
    const Source source{layer.activation, kernel ? static_cast<int>(i) : -1};
    if (!source_of_.emplace(layer.weight, source).second) {
      unsuitable_[layer.weight] = "several layers share it";
      continue;
    }
    const size_t inputs = FormOf(info.channels).inputs;
    wanted[source] = {kernel ? inputs * static_cast<size_t>(layer.window->groups) : inputs, inputs};
  }
  const size_t block = BlockWithin(wanted, memory);
  for (const auto& [source, w] : wanted) {
    const bool grouped = w.inputs != w.block;
    gathered_.emplace(source, Gathered{{w.inputs, grouped ? w.block : w.Within(block)}});
  }
}

std::vector<int> Compensation::Wanted() const {
  std::set<int> wanted;
  for (const auto& [source, gathered] : gathered_) wanted.insert(source.activation);
  return {wanted.begin(), wanted.end()};
}

void Compensation::Add(int activation, const TensorView& x) {
  const auto first = gathered_.lower_bound({activation, -1});
  if (first == gathered_.end() || first->first.activation != activation) return;
  const int own = model_.activations()[static_cast<size_t>(activation)].input_axis;
  const int rank = static_cast<int>(x.shape.size());
  std::vector<float> buffer;
  const std::span<const float> values = AsFloats(x, &buffer);
  std::vector<float> rounded(values.begin(), values.end());
  if (const auto how = activations_.find(activation); how != activations_.end()) {
    how->second.Apply(own < 0 ? own + rank : own, x.shape, values, rounded);
  }
  for (auto at = first; at != gathered_.end() && at->first.activation == activation; ++at) {
    if (at->second.problem.empty()) AddTo(at->first, x.shape, rounded, &at->second);
  }
}

void Compensation::AddTo(const Source& source, const Shape& shape, std::span<const float> values,
                         Gathered* gathered) const {
  MomentSums& sums = gathered->sums;
  if (source.layer >= 0) {
    // One row per input and sample: neighbours tell little that is new.
    constexpr size_t kLeastPatches = 256;
    const size_t most = std::max(kLeastPatches, sums.block());
    const ConvWindow& window = *model_.layers()[static_cast<size_t>(source.layer)].window;
    const auto rows = Patches(window, shape, values, most);
    if (rows && rows->size() % sums.inputs() == 0) return sums.Add(*rows);
    gathered->problem = "its kernel does not go over an input of shape " + ShapeText(shape);
    return;
  }
  const int own = model_.activations()[static_cast<size_t>(source.activation)].input_axis;
  const int rank = static_cast<int>(shape.size());
  const int axis = own < 0 ? own + rank : own;
  if (axis < 0 || axis >= rank ||
      static_cast<size_t>(shape[static_cast<size_t>(axis)]) != sums.inputs()) {
    gathered->problem = "its input of shape " + ShapeText(shape) + " is no row of the matrix";
    return;
  }
  sums.Add(RowsOf(shape, static_cast<size_t>(axis), {values.begin(), values.end()}));
}

std::vector<uint8_t> Compensation::RoundGroups(const WeightPlan& plan, const FloatSource& values,
                                               std::span<const float> scales,
                                               const MomentSums& sums) const {
  const size_t groups = sums.blocks();
  const size_t inputs = sums.block();
  const size_t rows = plan.layout.size() / (groups * inputs);
  std::vector<uint8_t> codes(plan.layout.size());
  ParallelFor(groups, [&](size_t group) {
    std::vector<float> buffer;
    const std::span<const float> part =
        values.Floats(group * rows * inputs, rows * inputs, &buffer);
    // A convolution has a scale per channel, or one.
    const bool one = scales.size() == 1;
    const MatrixWeight weight{part, rows, inputs, one ? scales : scales.subspan(group * rows, rows),
                              plan.tile};
    const std::vector<uint8_t> rounded = RoundCompensated(*plan.format, weight, sums.Block(group));
    std::copy(rounded.begin(), rounded.end(),
              codes.begin() + static_cast<ptrdiff_t>(group * rows * inputs));
  });
  return codes;
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
  const Source& source = source_of_.at(weight);
  const Gathered& gathered = gathered_.at(source);
  if (!gathered.problem.empty()) return nearest(gathered.problem);
  const MomentSums& sums = gathered.sums;
  if (source.layer >= 0 && model_.layers()[static_cast<size_t>(source.layer)].window->groups > 1) {
    if (TooFewRows(sums.Block(0))) return nearest(TooFew(sums.Block(0)));
    *note = "rounded for the layer's output";
    return RoundGroups(plan, values, scales, sums);
  }
  const MatrixForm form = FormOf(model_.weights()[static_cast<size_t>(weight)].channels);
  std::vector<uint8_t> codes(form.rows * form.inputs);
  for (size_t index = 0; index < sums.blocks(); ++index) {
    const SecondMoments moments = sums.Block(index);
    if (TooFewRows(moments)) return nearest(TooFew(moments));
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
