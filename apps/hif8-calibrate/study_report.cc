#include "apps/hif8-calibrate/study_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>

namespace hif8 {
namespace {

DelayedRuleReport RowOf(const std::string& layer, DelayedRule rule, const DelayedOutcome& outcome) {
  const auto count = [](uint64_t n) { return static_cast<int64_t>(n); };
  DelayedRuleReport row;
  row.layer = layer;
  row.rule = NameOf(rule);
  row.steps = count(outcome.steps);
  row.non_finite_steps = count(outcome.non_finite_steps);
  row.elements = count(outcome.elements);
  row.exceeded_steps = count(outcome.exceeded_steps);
  row.exceeded_elements = count(outcome.exceeded_elements);
  row.overflowed_steps = count(outcome.overflowed_steps);
  row.overflowed_elements = count(outcome.overflowed_elements);
  row.overshoot_binades = outcome.overshoot;
  row.mean_sqnr_db = ToMeasured(outcome.plain.Mean());
  row.worst_sqnr_db = ToMeasured(outcome.plain.Worst());
  row.clipped_mean_sqnr_db = ToMeasured(outcome.clipped.Mean());
  row.clipped_worst_sqnr_db = ToMeasured(outcome.clipped.Worst());
  return row;
}

// One rule over every activation once, however many layers read it.
DelayedRankReport RankOf(const DelayedStudy& study, size_t rule) {
  DelayedOutcome sum;
  StepSqnr plain, clipped;  // of the means
  StepSqnr plain_worst, clipped_worst;
  for (const auto& [index, replays] : study.replays()) {
    const DelayedOutcome& outcome = replays[rule].outcome;
    sum.steps += outcome.steps - outcome.non_finite_steps;
    sum.elements += outcome.elements;
    sum.exceeded_steps += outcome.exceeded_steps;
    sum.exceeded_elements += outcome.exceeded_elements;
    sum.overflowed_elements += outcome.overflowed_elements;
    sum.overshoot = std::max(sum.overshoot, outcome.overshoot);
    plain.Add(outcome.plain.Mean());
    clipped.Add(outcome.clipped.Mean());
    plain_worst.Add(outcome.plain.Worst());
    clipped_worst.Add(outcome.clipped.Worst());
  }
  const auto share = [](uint64_t part, uint64_t all) {
    return all == 0 ? Measured() : static_cast<double>(part) / static_cast<double>(all);
  };
  return {std::string(NameOf(kDelayedRules.at(rule))),
          share(sum.exceeded_steps, sum.steps),
          share(sum.exceeded_elements, sum.elements),
          share(sum.overflowed_elements, sum.elements),
          sum.overshoot,
          ToMeasured(plain.Mean()),
          ToMeasured(plain_worst.Worst()),
          ToMeasured(clipped.Mean()),
          ToMeasured(clipped_worst.Worst())};
}

// Six digits are more than a chart shows.
Measured Rounded(double value) {
  return ToMeasured(std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr));
}

DelayedTraceReport TraceOf(const DelayedTrace& trace) {
  DelayedTraceReport report;
  report.stride = trace.stride();
  std::array<std::vector<Measured>*, 3> rules = {&report.most_recent, &report.exp_smooth,
                                                 &report.max};  // as in kDelayedRules
  for (const DelayedTrace::Point& point : trace.points()) {
    report.steps.push_back(point.step);
    report.amax.push_back(Rounded(point.amax));
    for (size_t i = 0; i < rules.size(); ++i) rules[i]->push_back(Rounded(point.estimates[i]));
  }
  return report;
}

}  // namespace

std::optional<DelayedStudyReport> MakeDelayedStudyReport(const Model& model,
                                                         const PipelineResult& result) {
  if (result.delayed_study == nullptr) return std::nullopt;
  const DelayedStudy& study = *result.delayed_study;
  DelayedStudyReport report;
  report.history = result.config.delayed.history;
  report.interval = result.config.delayed.interval;
  report.alpha = result.config.delayed.alpha;
  for (size_t rule = 0; rule < kDelayedRules.size(); ++rule) {
    report.ranking.push_back(RankOf(study, rule));
  }
  // As training clips; of two that are equal there the one that is exceeded less often.
  const auto key = [](const DelayedRankReport& rank) {
    return rank.clipped_mean_sqnr_db.value_or(-std::numeric_limits<double>::infinity());
  };
  std::stable_sort(report.ranking.begin(), report.ranking.end(), [&](const auto& a, const auto& b) {
    if (key(a) != key(b)) return key(a) > key(b);
    return a.exceeded_rate.value_or(0) < b.exceeded_rate.value_or(0);
  });
  std::map<int, size_t> traces;  // by activation: position in the report
  for (const Layer& layer : model.layers()) {
    const auto at = study.replays().find(layer.activation);
    if (at == study.replays().end()) continue;
    const auto [trace, added] = traces.emplace(layer.activation, report.traces.size());
    if (added) report.traces.push_back(TraceOf(study.trace(layer.activation)));
    report.traces[trace->second].layers.push_back(layer.name);
    for (size_t rule = 0; rule < kDelayedRules.size(); ++rule) {
      report.rules.push_back(RowOf(layer.name, kDelayedRules.at(rule), at->second[rule].outcome));
    }
  }
  return report;
}

}  // namespace hif8
