#include "lib/report/gate.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/suggest.h"
#include "lib/report/columns.h"
#include "lib/report/selection.h"
#include "lib/report/text_util.h"

namespace hif8 {
namespace {

constexpr std::array<std::string_view, 4> kOps = {"<=", ">=", "<", ">"};
constexpr size_t kMostOffenders = 10;

using Items = std::vector<GateItem>;

struct NetworkMetric {
  const char* name;
  const char* help;
  std::function<void(const Report&, Items&)> collect;
};

std::function<void(const Report&, Items&)> OfOutputs(Measured NetworkOutputReport::*member) {
  return [member](const Report& report, Items& items) {
    for (const NetworkOutputReport& output : report.network.outputs) {
      items.push_back({output.name, output.*member});
    }
  };
}

std::function<void(const Report&, Items&)> OfPerplexity(Measured PerplexityReport::*member) {
  return [member](const Report& report, Items& items) {
    if (report.network.perplexity) {
      items.push_back({"network", (*report.network.perplexity).*member});
    }
  };
}

std::function<void(const Report&, Items&)> OfKvCache(Measured OperandReport::*member) {
  return [member](const Report& report, Items& items) {
    for (const KvCacheReport& entry : report.kv_cache) {
      if (entry.k) items.push_back({entry.name + ": k", (*entry.k).*member});
      if (entry.v) items.push_back({entry.name + ": v", (*entry.v).*member});
    }
  };
}

void CollectSizeRatio(const Report& report, Items& items) {
  const ModelReport& model = report.model;
  if (!model.bytes_before || !model.bytes_after || *model.bytes_before == 0) return;
  items.push_back({"model", static_cast<double>(*model.bytes_after) /
                                static_cast<double>(*model.bytes_before)});
}

const std::vector<NetworkMetric>& NetworkMetrics() {
  static const std::vector<NetworkMetric> kMetrics = {
      {"network_sqnr", "SQNR in dB of every network output",
       OfOutputs(&NetworkOutputReport::sqnr_db)},
      {"network_cosine", "cosine similarity of every network output",
       OfOutputs(&NetworkOutputReport::cosine)},
      {"argmax_agreement", "share of positions whose largest element stays, of every output",
       OfOutputs(&NetworkOutputReport::argmax_agreement)},
      {"perplexity", "perplexity of the quantized network",
       OfPerplexity(&PerplexityReport::quantized)},
      {"loss_gap_percent", "rise of the loss in percent",
       OfPerplexity(&PerplexityReport::loss_gap_percent)},
      {"coverage", "share of parameters quantized",
       [](const Report& report, Items& items) {
         items.push_back({"network", report.coverage.parameters});
       }},
      {"coverage_macs", "share of multiply-adds quantized",
       [](const Report& report, Items& items) {
         items.push_back({"network", report.coverage.macs});
       }},
      {"size_ratio", "size of the files, after by before", CollectSizeRatio},
      {"unmatched", "tensors that only one of two compared models has",
       [](const Report& report, Items& items) {
         if (!report.unmatched) return;
         items.push_back({"model", static_cast<double>(report.unmatched->size())});
       }},
      {"kv_sqnr", "SQNR in dB of every cached K and V", OfKvCache(&OperandReport::sqnr_db)},
      {"kv_zero_rate", "zero rate of every cached K and V", OfKvCache(&OperandReport::zero_rate)},
  };
  return kMetrics;
}

bool IsLayerMetric(const Column& column) { return column.kind != ColumnKind::kText; }

void CollectLayers(const Column& column, const Report& report, Items& items) {
  for (const LayerReport& layer : report.layers) {
    const Cell cell = column.get(layer);
    if (std::holds_alternative<std::monostate>(cell)) continue;  // does not apply to it
    items.push_back({layer.name, CellNumber(cell)});
  }
}

Items Collect(const std::string& metric, const Report& report) {
  Items items;
  for (const NetworkMetric& known : NetworkMetrics()) {
    if (metric != known.name) continue;
    known.collect(report, items);
    return items;
  }
  CollectLayers(GetColumn(metric), report, items);
  return items;
}

}  // namespace

std::vector<GateMetric> GateMetrics() {
  std::vector<GateMetric> metrics;
  for (const NetworkMetric& metric : NetworkMetrics())
    metrics.push_back({metric.name, metric.help});
  for (const Column& column : LayerColumns()) {
    if (IsLayerMetric(column)) metrics.push_back({column.name, column.help});
  }
  return metrics;
}

Gate ParseGate(const std::string& text) {
  Comparison parts = SplitComparison(text, kOps);
  if (parts.left == "loss_gap") parts.left = "loss_gap_percent";
  if (parts.op.empty()) {
    throw UsageError("a gate needs a metric, one of < <= > >=, and a limit, found '" + text + "'",
                     "for example --fail-if 'output_sqnr<20'");
  }
  std::vector<std::string> names;
  for (const GateMetric& metric : GateMetrics()) names.push_back(metric.name);
  if (std::find(names.begin(), names.end(), parts.left) == names.end()) {
    throw UsageError("gate '" + text + "': unknown metric '" + parts.left + "'",
                     SuggestionHint(parts.left, names));
  }
  Gate gate{text, parts.left, parts.op, 0};
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
  const std::string all = std::to_string(items.size());
  if (!error.empty()) return "gate " + gate.text + " cannot be decided";
  if (failures == 0) return "gate " + gate.text + " passed for " + all;
  return "gate " + gate.text + " failed for " + std::to_string(failures) + " of " + all;
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
    message +=
        (shown > 0 ? ", " : "") + CleanText(item.name) + " (" + NumberText6(item.value) + ")";
    ++shown;
  }
  return message;
}

GateResult EvaluateGate(const Gate& gate, const Report& report) {
  GateResult result;
  result.gate = gate;
  result.items = Collect(gate.metric, report);
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
    result.error = gate.metric + " was measured nowhere";
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
          undecided ? "measure it (evaluation data may be missing), or drop the gate" : "",
          "--fail-if");
    }
  }
  if (errors.empty()) return;
  Error all = errors.front();
  for (size_t i = 1; i < errors.size(); ++i) all.Add(errors[i]);
  throw all;
}

}  // namespace hif8
