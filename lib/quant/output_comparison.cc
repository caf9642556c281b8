#include "lib/quant/output_comparison.h"

#include <algorithm>

namespace hif8 {

OutputComparison::OutputComparison(const Model& model, const QuantPlan& plan,
                                   const ActivationSource& source, size_t choices,
                                   DecodeWeight decode)
    : model_(model), plan_(plan), source_(source), choices_(choices), decode_(std::move(decode)) {}

std::vector<OutputComparison::Reader>& OutputComparison::ReadersOf(int activation) {
  const auto [at, added] = readers_.try_emplace(activation);
  if (!added) return at->second;
  for (size_t i = 0; i < plan_.layers.size(); ++i) {
    const Layer& layer = model_.layers()[i];
    if (!plan_.layers[i].quantized || layer.activation != activation || layer.weight < 0) continue;
    const int index = static_cast<int>(i);
    Reader reader{index, LayerRunner::Make(source_, index), {}, {}};
    if (reader.runner == nullptr) continue;
    reader.errors.resize(choices_);
    at->second.push_back(std::move(reader));
  }
  return at->second;
}

const std::vector<float>& OutputComparison::WeightOf(int weight, int choice) {
  const Key key{weight, choice};
  const auto found = std::find_if(recent_.begin(), recent_.end(),
                                  [&](const auto& entry) { return entry.first == key; });
  if (found != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, found);
    return recent_.front().second;
  }
  recent_.emplace_front(key, decode_(weight, choice));
  bytes_ += recent_.front().second.size() * sizeof(float);
  while (bytes_ > kMostWeightBytes && recent_.size() > 1) {
    bytes_ -= recent_.back().second.size() * sizeof(float);
    recent_.pop_back();
  }
  return recent_.front().second;
}

void OutputComparison::Begin(int activation, const Shape& shape, std::span<const float> x) {
  current_ = &ReadersOf(activation);
  shape_ = shape;
  for (Reader& reader : *current_) {
    const int weight = model_.layers()[static_cast<size_t>(reader.layer)].weight;
    reader.exact = reader.runner->Run(x, shape_, WeightOf(weight, -1),
                                      model_.weights()[static_cast<size_t>(weight)].shape);
  }
}

void OutputComparison::Add(size_t choice, std::span<const float> quantized) {
  for (Reader& reader : *current_) {
    const int weight = model_.layers()[static_cast<size_t>(reader.layer)].weight;
    const std::vector<float> y =
        reader.runner->Run(quantized, shape_, WeightOf(weight, static_cast<int>(choice)),
                           model_.weights()[static_cast<size_t>(weight)].shape);
    reader.errors[choice].Add(reader.exact, y);
  }
}

const std::vector<ErrorMetrics>& OutputComparison::Errors(int layer) const {
  static const std::vector<ErrorMetrics> kNone;
  for (const auto& [activation, readers] : readers_) {
    for (const Reader& reader : readers) {
      if (reader.layer == layer) return reader.errors;
    }
  }
  return kNone;
}

}  // namespace hif8
