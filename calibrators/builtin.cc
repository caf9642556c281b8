#include "calibrators/builtin.h"

#include "calibrators/rules.h"

namespace hif8 {

const CalibratorRegistry& BuiltinCalibrators() {
  static const CalibratorRegistry registry = [] {
    CalibratorRegistry rules("scale rule");
    for (const auto& make : {MakeMaxRule, MakePercentileRule, MakeMseRule, MakeEmaRule,
                             MakeDelayedRule, MakeCastRule}) {
      auto rule = make();
      rules.Add(std::string(rule->name()), rule);
    }
    return rules;
  }();
  return registry;
}

}  // namespace hif8
