// Rule `cast`: scale 1, values are converted as they are.
#include "calibrators/amax_rule.h"
#include "calibrators/rules.h"

namespace hif8 {
namespace {

class CastRule : public AmaxRule {
 public:
  std::string_view name() const override { return "cast"; }
  std::string_view description() const override { return "scale 1: convert directly"; }
  const RuleTraits& traits() const override {
    static constexpr RuleTraits kTraits{.caches = true, .needs_data = false};
    return kTraits;
  }
  // The format's largest value is what maps to itself; nothing was looked at to choose it.
  ScaleChoice SolveAmax(float amax, const NumberFormat& format,
                        const ScaleParams& /*params*/) const override {
    ScaleChoice choice;
    choice.scale = 1;
    choice.reference = format.MaxFinite();
    choice.target = choice.reference;
    choice.amax = amax;
    return choice;
  }
};

}  // namespace

std::shared_ptr<const Calibrator> MakeCastRule() { return std::make_shared<CastRule>(); }

}  // namespace hif8
