#include "lib/quant/output_objective.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include "lib/quant/weight_quantizer.h"
#include "lib/runtime/layer_runner.h"

namespace hif8 {
namespace {

// SplitMix64: the n-th number of a fixed sequence.
uint64_t Scrambled(uint64_t n) {
  n += 0x9e3779b97f4a7c15u;
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9u;
  n = (n ^ (n >> 27)) * 0x94d049bb133111ebu;
  return n ^ (n >> 31);
}

// Slices of one shape, side by side.
struct Batch {
  Shape shape;
  std::vector<float> values;
};

std::vector<Batch> Batches(const std::vector<SliceSample::Slice>& slices) {
  std::map<Shape, Batch> batches;
  for (const SliceSample::Slice& slice : slices) {
    Batch& batch = batches[slice.shape];
    if (batch.shape.empty()) batch.shape = slice.shape;
    if (!batch.values.empty()) ++batch.shape.front();
    batch.values.insert(batch.values.end(), slice.values.begin(), slice.values.end());
  }
  std::vector<Batch> list;
  list.reserve(batches.size());
  for (auto& [shape, batch] : batches) list.push_back(std::move(batch));
  return list;
}

// A layer that reads the activation, ready to be run with quantized operands.
struct Reader {
  std::unique_ptr<LayerRunner> runner;
  Shape weight_shape;
  std::vector<float> weight;              // as it is written
  std::vector<std::vector<float>> exact;  // outputs of the batches, from original operands
};

}  // namespace

void SliceSample::Add(const TensorView& x) {
  if (x.size() == 0 || x.shape.empty()) return;
  std::vector<float> buffer;
  const std::span<const float> values = AsFloats(x, &buffer);
  const auto count = static_cast<size_t>(x.shape.front());
  const size_t size = values.size() / count;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t priority = Scrambled(seen_++);
    const bool full = slices_.size() == kMostSlices || elements_ + size > kMostElements;
    if (full && !slices_.empty() && priority >= slices_.back().priority) continue;
    const std::span<const float> slice = values.subspan(i * size, size);
    if (!std::all_of(slice.begin(), slice.end(), [](float v) { return std::isfinite(v); }))
      continue;
    Slice added{priority, x.shape, {slice.begin(), slice.end()}};
    added.shape.front() = 1;
    const auto at =
        std::upper_bound(slices_.begin(), slices_.end(), priority,
                         [](uint64_t value, const Slice& other) { return value < other.priority; });
    slices_.insert(at, std::move(added));
    elements_ += size;
    while (slices_.size() > 1 && (slices_.size() > kMostSlices || elements_ > kMostElements)) {
      elements_ -= slices_.back().values.size();
      slices_.pop_back();
    }
  }
}

void OutputObjective::Add(int activation, const TensorView& x) {
  const auto plan = plan_.activations.find(activation);
  if (plan == plan_.activations.end() || plan->second.rule->search() == nullptr) return;
  samples_[activation].Add(x);
}

std::optional<ScaleChoice> OutputObjective::Solve(
    int activation, const TensorStats& stats,
    const std::function<EncodedWeight(int)>& encode) const {
  const auto sample = samples_.find(activation);
  if (sample == samples_.end() || sample->second.slices().empty()) return std::nullopt;
  const std::vector<Batch> batches = Batches(sample->second.slices());
  std::vector<Reader> readers;
  for (size_t i = 0; i < plan_.layers.size(); ++i) {
    const Layer& layer = model_.layers()[i];
    const bool reads = layer.activation == activation || layer.second_activation == activation;
    if (!plan_.layers[i].quantized || !reads) continue;
    Reader reader{LayerRunner::Make(source_, static_cast<int>(i)), {}, {}, {}};
    if (reader.runner == nullptr) return std::nullopt;
    const Tensor original = model_.ReadWeight(layer.weight);
    reader.weight_shape = original.view.shape;
    std::vector<float> buffer;
    const std::span<const float> weight = AsFloats(original.view, &buffer);
    for (const Batch& batch : batches) {
      reader.exact.push_back(
          reader.runner->Run(batch.values, batch.shape, weight, reader.weight_shape));
    }
    const EncodedWeight encoded = encode(layer.weight);
    reader.weight.resize(weight.size());
    DecodeWeight(encoded, *plan_.weights.at(layer.weight).format, reader.weight);
    readers.push_back(std::move(reader));
  }
  if (readers.empty()) return std::nullopt;
  const OperandPlan& operand = plan_.activations.at(activation);
  const float target = ResolveTarget(*operand.format, operand.params);
  std::vector<float> rounded;
  const auto error = [&](float scale) {
    double sum = 0;
    for (size_t b = 0; b < batches.size(); ++b) {
      rounded.resize(batches[b].values.size());
      FakeQuantize how{operand.format, scale, {}, {}};
      if (operand.config.clip) how.clip = scale * target;
      how.Apply(-1, batches[b].shape, batches[b].values, rounded);
      for (const Reader& reader : readers) {
        const std::vector<float> y =
            reader.runner->Run(rounded, batches[b].shape, reader.weight, reader.weight_shape);
        for (size_t i = 0; i < y.size(); ++i) {
          const double d = static_cast<double>(y[i]) - static_cast<double>(reader.exact[b][i]);
          sum += d * d;
        }
      }
    }
    return sum;
  };
  return operand.rule->search()->Search(stats.amax(), *operand.format, operand.params, error);
}

}  // namespace hif8
