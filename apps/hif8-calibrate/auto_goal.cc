#include "apps/hif8-calibrate/auto_goal.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "apps/hif8-calibrate/make_report.h"
#include "lib/core/error.h"
#include "lib/report/text_util.h"

namespace hif8 {

AutoGoal MakeAutoGoal(const std::string& text) {
  const Goal goal = ParseGoal(text);
  AutoGoal made;
  made.text = text;
  made.metric = goal.gate.metric;
  made.higher_is_better = goal.higher_is_better;
  made.value = [goal](const Measurement& measurement) {
    Report report;
    report.network = MakeNetworkReport(measurement);
    return WorstValue(goal, report);
  };
  made.holds = [goal](double value) { return Holds(goal, value); };
  return made;
}

std::optional<AutoReport> MakeAutoReport(const Model& model, const PipelineResult& result,
                                         const AutoGoal& goal) {
  if (!result.automatic) return std::nullopt;
  const auto name = [&](int layer) { return model.layers()[static_cast<size_t>(layer)].name; };
  AutoReport report;
  report.goal = goal.text;
  report.metric = goal.metric;
  report.met = result.automatic->met;
  report.plain = ToMeasured(result.automatic->plain);
  report.result = goal.value(result.measurement);
  const auto all = static_cast<int64_t>(result.measurement.samples);
  const int64_t first = std::min<int64_t>(all, kAutoEstimateSamples);
  for (const LayerSensitivity& entry : result.automatic->ranking) {
    report.ranking.push_back(
        {name(entry.layer), ToMeasured(entry.alone), entry.confirmed ? all : first});
  }
  for (const KeptLayer& kept : result.automatic->kept) {
    report.kept.push_back({name(kept.layer), ToMeasured(kept.before), ToMeasured(kept.after),
                           ToMeasured(kept.without)});
  }
  return report;
}

void RequireGoal(const Report& report) {
  if (!report.automatic || report.automatic->met) return;
  const AutoReport& automatic = *report.automatic;
  throw Error(ErrorCode::kGate,
              "goal " + automatic.goal + " not met: the best that was found has " +
                  NumberText6(automatic.result) + " with " + std::to_string(automatic.kept.size()) +
                  " layers kept",
              "it was written; choose a lower goal, another scale rule or another format",
              "--auto");
}

}  // namespace hif8
