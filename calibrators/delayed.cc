// Rule `delayed`: the samples replayed as training steps; the estimate after the last one is mapped
// to the target.
#include "calibrators/amax_rule.h"
#include "calibrators/rules.h"
#include "lib/quant/delayed_scaling.h"

namespace hif8 {
namespace {

class DelayedCalibrator : public Calibrator {
 public:
  std::string_view name() const override { return "delayed"; }
  std::string_view description() const override {
    return "amax estimated from earlier samples, as in training -> target";
  }
  const RuleTraits& traits() const override {
    static constexpr RuleTraits kTraits{
        .weights = false, .order_dependent = true, .settings = "delayed"};
    return kTraits;
  }
  ScaleChoice Solve(std::span<const float> values, const NumberFormat& format,
                    const ScaleParams& params) const override {
    const float amax = Amax(values);  // one step
    return ChooseScale(amax, amax, format, params);
  }
  ScaleChoice Solve(const TensorStats& stats, const NumberFormat& format,
                    const ScaleParams& params) const override {
    DelayedScaling replay(params.delayed);
    for (const float amax : stats.trace()) replay.Step(amax);
    const std::optional<double> estimate = replay.Estimate();
    const float reference = estimate ? static_cast<float>(*estimate) : stats.amax();
    ScaleChoice choice = ChooseScale(reference, stats.amax(), format, params);
    if (!estimate) {
      choice.note =
          "no measurement since the last non-finite sample: the largest finite magnitude was taken";
    }
    return choice;
  }
};

}  // namespace

std::shared_ptr<const Calibrator> MakeDelayedRule() {
  return std::make_shared<DelayedCalibrator>();
}

}  // namespace hif8
