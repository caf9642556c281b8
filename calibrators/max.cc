// Rule `max`: the largest magnitude is mapped to the target.
#include "calibrators/amax_rule.h"
#include "calibrators/rules.h"

namespace hif8 {
namespace {

class MaxRule : public AmaxRule {
 public:
  std::string_view name() const override { return "max"; }
  std::string_view description() const override { return "largest magnitude -> target"; }
  const RuleTraits& traits() const override {
    static constexpr RuleTraits kTraits{.caches = true, .tiles = true};
    return kTraits;
  }
  ScaleChoice SolveAmax(float amax, const NumberFormat& format,
                        const ScaleParams& params) const override {
    return ChooseScale(amax, amax, format, params);
  }
};

}  // namespace

std::shared_ptr<const Calibrator> MakeMaxRule() { return std::make_shared<MaxRule>(); }

}  // namespace hif8
