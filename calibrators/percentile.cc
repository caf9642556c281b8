// Rule `percentile`: a percentile of all magnitudes, zeros included, is mapped to the target.
#include <algorithm>
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

class PercentileRule : public Calibrator {
 public:
  std::string_view name() const override { return "percentile"; }
  std::string_view description() const override {
    return "a percentile of magnitudes (nearest rank, zeros included) -> target";
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
