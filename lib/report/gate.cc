#include "lib/report/gate.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "lib/core/error.h"
#include "lib/report/metrics.h"
#include "lib/report/selection.h"
#include "lib/report/text_util.h"

namespace hif8 {
namespace {

constexpr std::array<std::string_view, 4> kOps = {"<=", ">=", "<", ">"};
constexpr size_t kMostOffenders = 10;

constexpr std::string_view kRegression = "regression(";

// A metric in a report.
void Collect(const Metric& metric, const Report& report, GateResult* result) {
  for (const MetricValue& value : metric.collect(report)) {
    result->items.push_back({value.name, value.value, false, {}, {}});
  }
}

// How much worse it became since the baseline.
void CollectRegressions(const Metric& metric, const Report& report, const Report& baseline,
                        GateResult* result) {
  std::map<std::string, Measured> before;
  for (const MetricValue& value : metric.collect(baseline)) before[value.name] = value.value;
  for (const MetricValue& value : metric.collect(report)) {
    const auto partner = before.find(value.name);
    if (partner == before.end()) {
      ++result->unmatched;
      continue;
    }
    result->items.push_back({value.name, WorseBy(metric.better, value.value, partner->second),
                             false, value.value, partner->second});
    before.erase(partner);
  }
  result->unmatched += before.size();
}

void CheckRegression(const Gate& gate, const Metric& metric, bool has_baseline) {
  const std::string where = "gate '" + gate.text + "': ";
  if (!has_baseline) {
    throw UsageError(where + "there is no second report to compare with",
                     "give both: hif8-report OUT BASELINE");
  }
  if (metric.better == Better::kNeither) {
    throw UsageError(where + "neither a higher nor a lower " + metric.name + " is worse",
                     "ask for a regression of SQNRs, rates, perplexity, coverage or sizes");
  }
  if (!gate.op.starts_with('>')) {
    throw UsageError(where +
                         "a regression is how much worse it became, so the gate fails above a "
                         "limit: expected > or >=, found " +
                         gate.op,
                     "for example --fail-if 'regression(" + metric.name + ")>1'");
  }
}

}  // namespace

Gate ParseGate(const std::string& text, bool has_baseline) {
  const Comparison parts = SplitComparison(text, kOps);
  if (parts.op.empty()) {
    throw UsageError("a gate needs a metric, one of < <= > >=, and a limit, found '" + text + "'",
                     "for example --fail-if 'output_sqnr<20'");
  }
  Gate gate{text, parts.left, parts.op, 0};
  gate.regression = parts.left.starts_with(kRegression) && parts.left.ends_with(")");
  if (gate.regression) {
    gate.metric = parts.left.substr(kRegression.size(), parts.left.size() - kRegression.size() - 1);
  }
  if (gate.metric == "loss_gap") gate.metric = "loss_gap_percent";
  const Metric& metric = GetMetric(gate.metric, "gate '" + text + "': ");
  if (gate.regression) CheckRegression(gate, metric, has_baseline);
  if (!ParseNumber(parts.right, &gate.limit)) {
    throw UsageError("gate '" + text + "': expected a number as limit, found '" + parts.right + "'",
                     "SQNR is in dB, shares are between 0 and 1");
  }
  return gate;
}

Goal ParseGoal(const std::string& text) {
  // What keeping layers in high precision improves, and where better is.
  static constexpr std::pair<std::string_view, bool> kMetrics[] = {{"network_sqnr", true},
                                                                   {"network_cosine", true},
                                                                   {"argmax_agreement", true},
                                                                   {"perplexity", false},
                                                                   {"loss_gap_percent", false}};
  Goal goal{ParseGate(text)};
  for (const auto& [metric, higher] : kMetrics) {
    if (goal.gate.metric != metric) continue;
    goal.higher_is_better = higher;
    if (goal.gate.op.starts_with(higher ? '>' : '<')) return goal;
    throw UsageError("goal '" + text + "': expected " + (higher ? ">= or >" : "<= or <") +
                         " since " + goal.gate.metric + " is better the " +
                         (higher ? "higher" : "lower") + " it is",
                     "unlike a gate, a goal says what must hold");
  }
  throw UsageError(
      "goal '" + text + "': '" + goal.gate.metric + "' does not tell how good the network is",
      "known: network_sqnr, network_cosine, argmax_agreement, perplexity, "
      "loss_gap_percent");
}

double WorstValue(const Goal& goal, const Report& report) {
  const GateResult result = EvaluateGate(goal.gate, report);
  if (!result.error.empty()) {
    throw UsageError("goal " + goal.gate.text + " cannot be decided: " + result.error,
                     "choose a metric that this network has; --list metrics of hif8-report names "
                     "them");
  }
  double worst = *result.items.front().value;
  for (const GateItem& item : result.items) {
    worst = goal.higher_is_better ? std::min(worst, *item.value) : std::max(worst, *item.value);
  }
  return worst;
}

bool Holds(const Goal& goal, double value) { return Compare(value, goal.gate.op, goal.gate.limit); }

std::string GateResult::Summary() const {
  std::string all = std::to_string(items.size());
  if (unmatched > 0) all += ", " + std::to_string(unmatched) + " without a partner left out";
  if (!error.empty()) return "gate " + gate.text + " cannot be decided";
  if (failures == 0) return "gate " + gate.text + " passed for " + all;
  return "gate " + gate.text + " failed for " + std::to_string(failures) + " of " + all;
}

std::string GateResult::ValueText(const GateItem& item) const {
  if (!gate.regression) return NumberText6(item.value);
  return NumberText6(item.value) + " worse: " + NumberText6(item.now) + " after " +
         NumberText6(item.was);
}

std::string GateResult::Message() const {
  if (Passed()) return Summary();
  std::string message = Summary() + ": ";
  if (!error.empty()) return message + error;
  size_t shown = 0;
  for (const GateItem& item : items) {
    if (!item.failed) continue;
    if (shown == kMostOffenders) {
      return message + ", and " + std::to_string(failures - shown) + " more";
    }
    message += (shown > 0 ? ", " : "") + CleanText(item.name) + " (" + ValueText(item) + ")";
    ++shown;
  }
  return message;
}

GateResult EvaluateGate(const Gate& gate, const Report& report, const Report* baseline) {
  GateResult result;
  result.gate = gate;
  const Metric& metric = GetMetric(gate.metric, "");
  if (gate.regression) {
    if (baseline == nullptr) throw BugError("a regression without a baseline");
    CollectRegressions(metric, report, *baseline, &result);
  } else {
    Collect(metric, report, &result);
  }
  size_t missing = 0;
  std::string first_missing;
  for (GateItem& item : result.items) {
    if (!item.value) {
      if (missing++ == 0) first_missing = CleanText(item.name);
      continue;
    }
    item.failed = Compare(*item.value, gate.op, gate.limit);
    result.failures += item.failed ? 1 : 0;
  }
  if (missing == result.items.size()) {
    result.error = gate.metric + " was measured nowhere" + (gate.regression ? " in both runs" : "");
  } else if (missing > 0) {
    result.error = gate.metric + " was not measured for " + std::to_string(missing) + " of " +
                   std::to_string(result.items.size()) + ", such as " + first_missing;
  }
  return result;
}

void RequireGates(std::span<const GateResult> results) {
  std::vector<Error> errors;
  for (const bool undecided : {true, false}) {
    for (const GateResult& result : results) {
      if (result.Passed() || result.error.empty() == undecided) continue;
      errors.emplace_back(
          undecided ? ErrorCode::kUsage : ErrorCode::kGate, result.Message(),
          undecided ? "measure it (evaluation data may be missing), or drop the gate"
                    : "keep these layers (--keep), choose another recipe, or ask for less",
          "--fail-if");
    }
  }
  if (errors.empty()) return;
  Error all = errors.front();
  for (size_t i = 1; i < errors.size(); ++i) all.Add(errors[i]);
  throw all;
}

}  // namespace hif8
