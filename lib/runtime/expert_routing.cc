#include "lib/runtime/expert_routing.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hif8 {

ExpertRouting::ExpertRouting(const ExpertsSpec& spec, std::vector<float> correction,
                             const std::vector<size_t>& sizes, size_t width, uint64_t memory_limit)
    : spec_(spec),
      correction_(std::move(correction)),
      width_(width),
      routes_(static_cast<size_t>(spec.count), std::vector<Route>(sizes.size())),
      normed_(sizes, memory_limit) {
  for (const size_t size : sizes) lengths_.push_back(size / width);
}

void ExpertRouting::Take(size_t sample, const TensorView& normed, const TensorView& logits) {
  std::vector<float> buffer;
  normed_.Write(sample, AsFloats(normed, &buffer));
  const auto scores = AsFloats(logits, &buffer);
  const auto count = static_cast<size_t>(spec_.count);
  for (std::vector<Route>& expert : routes_) expert[sample] = {};
  for (size_t row = 0; row < lengths_[sample]; ++row) {
    for (const ExpertChoice& choice :
         ChooseExperts(spec_, scores.subspan(row * count, count), correction_)) {
      Route& route = routes_[static_cast<size_t>(choice.expert)][sample];
      route.rows.push_back(static_cast<int64_t>(row));
      route.weights.push_back(choice.weight);
    }
  }
}

std::vector<int64_t> ExpertRouting::Active() const {
  std::vector<int64_t> active;
  for (size_t e = 0; e < routes_.size(); ++e) {
    for (const Route& route : routes_[e]) {
      if (route.rows.empty()) continue;
      active.push_back(static_cast<int64_t>(e));
      break;
    }
  }
  return active;
}

void ExpertRouting::Run(const PartSession& session, NamedTensors* constants, int64_t expert,
                        size_t sample, bool all, HiddenStates* states) {
  const Route& route = routes_[static_cast<size_t>(expert)][sample];
  std::vector<int64_t> rows = route.rows;
  if (all) {
    rows.resize(lengths_[sample]);
    std::iota(rows.begin(), rows.end(), int64_t{0});
  }
  if (rows.empty()) return;
  std::vector<float> gathered(rows.size() * width_);
  const std::span<const float> normed = normed_.Read(sample);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row = normed.subspan(static_cast<size_t>(rows[i]) * width_, width_);
    const float weight = spec_.weight_input ? route.weights[i] : 1;
    for (size_t k = 0; k < width_; ++k) gathered[i * width_ + k] = row[k] * weight;
  }
  (*constants)["rows"] =
      FloatTensor(gathered, {static_cast<int64_t>(rows.size()), static_cast<int64_t>(width_)});
  const Tensor result = session.Run(*constants);
  constants->erase("rows");
  if (states == nullptr) return;
  std::vector<float> buffer;
  const auto out = AsFloats(result.view, &buffer);
  std::vector<float> weighted(width_);
  for (size_t i = 0; i < route.rows.size(); ++i) {
    const size_t at = all ? static_cast<size_t>(route.rows[i]) : i;
    const float weight = spec_.weight_input ? 1 : route.weights[i];
    for (size_t k = 0; k < width_; ++k) weighted[k] = out[at * width_ + k] * weight;
    states->Add(sample, static_cast<size_t>(route.rows[i]) * width_, weighted);
  }
}

}  // namespace hif8
