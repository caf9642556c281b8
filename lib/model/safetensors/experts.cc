#include "lib/model/safetensors/experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hif8 {
namespace {

template <typename Values>
void Softmax(Values& values) {
  const float largest = *std::max_element(values.begin(), values.end());
  float sum = 0;
  for (float& x : values) sum += x = std::exp(x - largest);
  for (float& x : values) x /= sum;
}

std::vector<float> Scores(const ExpertsSpec& spec, std::span<const float> logits) {
  std::vector<float> scores(logits.begin(), logits.end());
  if (spec.score == RouterScore::kSoftmaxOfChosen) return scores;
  if (spec.score == RouterScore::kSigmoid) {
    for (float& x : scores) x = 1 / (1 + std::exp(-x));
    return scores;
  }
  Softmax(scores);
  return scores;
}

// Positions of the `n` largest values, best first.
std::vector<int64_t> Largest(std::span<const float> values, int64_t n) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(n));
  return order;
}

// Leaves only the best groups in the race: the others' values become 0, as the model does it.
void LimitToGroups(const ExpertsSpec& spec, std::vector<float>* values) {
  const auto size = values->size() / static_cast<size_t>(spec.groups);
  std::vector<float> group_scores;
  for (size_t g = 0; g < static_cast<size_t>(spec.groups); ++g) {
    const auto group = std::span<const float>(*values).subspan(g * size, size);
    float score = 0;
    const auto best =
        std::min<int64_t>(spec.group_score == GroupScore::kMax ? 1 : 2, static_cast<int64_t>(size));
    for (const int64_t i : Largest(group, best)) score += group[static_cast<size_t>(i)];
    group_scores.push_back(score);
  }
  std::vector<bool> used(group_scores.size(), false);
  for (const int64_t g : Largest(group_scores, spec.groups_used))
    used[static_cast<size_t>(g)] = true;
  for (size_t i = 0; i < values->size(); ++i) {
    if (!used[i / size]) (*values)[i] = 0;
  }
}

}  // namespace

std::vector<ExpertChoice> ChooseExperts(const ExpertsSpec& spec, std::span<const float> logits,
                                        std::span<const float> correction) {
  const std::vector<float> scores = Scores(spec, logits);
  std::vector<float> race = scores;
  if (spec.corrected()) {
    for (size_t i = 0; i < race.size(); ++i) race[i] += correction[i];
  }
  if (spec.groups > 1) LimitToGroups(spec, &race);
  const std::vector<int64_t> chosen = Largest(race, spec.per_row);
  std::vector<float> weights;
  weights.reserve(chosen.size());
  for (const int64_t expert : chosen) weights.push_back(scores[static_cast<size_t>(expert)]);
  if (spec.score == RouterScore::kSoftmaxOfChosen) Softmax(weights);
  float sum = 0;
  for (const float weight : weights) sum += weight;
  std::vector<ExpertChoice> choices;
  for (size_t i = 0; i < chosen.size(); ++i) {
    float weight = weights[i];
    if (spec.normalised) weight /= sum + 1e-20f;
    choices.push_back({chosen[i], weight * static_cast<float>(spec.scaling)});
  }
  return choices;
}

}  // namespace hif8
