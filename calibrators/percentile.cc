// Rule `percentile`: a percentile of all magnitudes, zeros included, is mapped to the target.
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "calibrators/rules.h"

namespace hif8 {
namespace {

ScaleChoice Choose(float percentile, float amax, const NumberFormat& format,
                   const ScaleParams& params) {
  const bool fall_back = percentile == 0 && amax > 0;
  ScaleChoice choice = ChooseScale(fall_back ? amax : percentile, amax, format, params);
  if (fall_back) choice.note = "the percentile is 0: the largest magnitude was taken instead";
  return choice;
}

constexpr int kLowerBits = 15;
constexpr int kUpperBits = 16;

// The index in whose count the value of that rank (from 1) is; `rank` becomes its rank there.
uint32_t TakeRank(const std::vector<uint64_t>& counts, uint64_t* rank) {
  uint32_t at = 0;
  while (*rank > counts[at]) *rank -= counts[at++];
  return at;
}

class PercentileRule : public Calibrator {
 public:
  std::string_view name() const override { return "percentile"; }
  std::string_view description() const override {
    return "a percentile of magnitudes (nearest rank, zeros included) -> target";
  }
  const RuleTraits& traits() const override {
    static constexpr RuleTraits kTraits{.caches = true, .settings = "percentile"};
    return kTraits;
  }
  ScaleChoice Solve(std::span<const float> values, const NumberFormat& format,
                    const ScaleParams& params) const override {
    if (values.empty()) return ChooseScale(0, 0, format, params);
    std::vector<float> magnitudes(values.size());
    std::transform(values.begin(), values.end(), magnitudes.begin(),
                   [](float v) { return std::abs(v); });
    const uint64_t rank = NearestRank(params.percentile, magnitudes.size());
    const auto nth = magnitudes.begin() + static_cast<std::ptrdiff_t>(rank) - 1;
    std::nth_element(magnitudes.begin(), nth, magnitudes.end());
    return Choose(*nth, *std::max_element(nth, magnitudes.end()), format, params);
  }
  ScaleChoice SolvePieces(const ValuePieces& values, const NumberFormat& format,
                          const ScaleParams& params) const override {
    // Counts by the magnitude's upper bits say where the percentile is, by the lower ones which.
    std::vector<uint64_t> counts(size_t{1} << kUpperBits);
    uint64_t count = 0;
    uint32_t most = 0;
    values([&](std::span<const float> piece) {
      for (const float v : piece) {
        const uint32_t bits = std::bit_cast<uint32_t>(std::abs(v));
        ++counts[bits >> kLowerBits];
        most = std::max(most, bits);
      }
      count += piece.size();
    });
    if (count == 0) return ChooseScale(0, 0, format, params);
    uint64_t rank = NearestRank(params.percentile, count);
    const uint32_t upper = TakeRank(counts, &rank);
    counts.assign(size_t{1} << kLowerBits, 0);
    values([&](std::span<const float> piece) {
      for (const float v : piece) {
        const uint32_t bits = std::bit_cast<uint32_t>(std::abs(v));
        if (bits >> kLowerBits == upper) ++counts[bits & ((1u << kLowerBits) - 1)];
      }
    });
    const uint32_t lower = TakeRank(counts, &rank);
    return Choose(std::bit_cast<float>(upper << kLowerBits | lower), std::bit_cast<float>(most),
                  format, params);
  }
  ScaleChoice Solve(const TensorStats& stats, const NumberFormat& format,
                    const ScaleParams& params) const override {
    return Choose(stats.Percentile(params.percentile), stats.amax(), format, params);
  }
};

}  // namespace

std::shared_ptr<const Calibrator> MakePercentileRule() {
  return std::make_shared<PercentileRule>();
}

}  // namespace hif8
