// Rule `ema`: a running amax over the samples ("Quantile" in Ascend's AMCT).
#include <cmath>

#include "calibrators/amax_rule.h"
#include "calibrators/rules.h"

namespace hif8 {
namespace {

class EmaRule : public Calibrator {
 public:
  std::string_view name() const override { return "ema"; }
  std::string_view description() const override {
    return "running amax over the samples, a <- 0.99 a + 0.01 amax -> target";
  }
  const RuleTraits& traits() const override {
    static constexpr RuleTraits kTraits{.weights = false, .order_dependent = true};
    return kTraits;
  }
  ScaleChoice Solve(std::span<const float> values, const NumberFormat& format,
                    const ScaleParams& params) const override {
    const float amax = Amax(values);  // one sample
    return ChooseScale(amax, amax, format, params);
  }
  ScaleChoice Solve(const TensorStats& stats, const NumberFormat& format,
                    const ScaleParams& params) const override {
    constexpr double kMomentum = 0.99;
    double running = 0;
    bool started = false;
    for (const float amax : stats.trace()) {
      if (std::isnan(amax)) continue;
      running = started ? kMomentum * running + (1 - kMomentum) * amax : static_cast<double>(amax);
      started = true;
    }
    ScaleChoice choice = ChooseScale(started ? static_cast<float>(running) : stats.amax(),
                                     stats.amax(), format, params);
    if (!started) {
      choice.note = "every sample holds non-finite values: the largest finite magnitude was taken";
    }
    return choice;
  }
};

}  // namespace

std::shared_ptr<const Calibrator> MakeEmaRule() { return std::make_shared<EmaRule>(); }

}  // namespace hif8
