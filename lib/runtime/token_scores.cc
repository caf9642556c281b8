#include "lib/runtime/token_scores.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/core/parallel.h"

namespace hif8 {

TokenScores::TokenScores(std::vector<int64_t> ids, size_t rows)
    : ids_(std::move(ids)), positions_(rows) {}

void TokenScores::Add(std::span<const float> logits, int64_t first, int64_t width) {
  ParallelFor(positions_.size(), [&](size_t t) {
    Position& p = positions_[t];
    const auto row = logits.subspan(t * static_cast<size_t>(width), static_cast<size_t>(width));
    const auto best = std::max_element(row.begin(), row.end());
    if (best == row.end()) return;
    if (p.best < 0 || *best > p.largest) {
      if (p.best >= 0) p.sum *= std::exp(static_cast<double>(p.largest) - *best);
      p.largest = *best;
      p.best = first + (best - row.begin());
    }
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit) - p.largest);
    p.sum += sum;
    if (t + 1 >= ids_.size()) return;
    const int64_t label = ids_[t + 1] - first;
    if (label >= 0 && label < width) p.label = row[static_cast<size_t>(label)];
  });
}

double TokenScores::NegativeLogLikelihood() const {
  double total = 0;
  for (size_t t = 0; t + 1 < ids_.size(); ++t) {
    const Position& p = positions_[t];
    total += std::log(p.sum) + p.largest - p.label;
  }
  return total;
}

std::vector<int64_t> TokenScores::Predictions() const {
  std::vector<int64_t> best;
  for (const Position& p : positions_) best.push_back(p.best);
  return best;
}

double Perplexity(std::span<const TokenScores> scores) {
  double loss = 0;
  uint64_t tokens = 0;
  for (const TokenScores& score : scores) {
    loss += score.NegativeLogLikelihood();
    tokens += score.predicted();
  }
  return tokens == 0 ? 0 : std::exp(loss / static_cast<double>(tokens));
}

}  // namespace hif8
