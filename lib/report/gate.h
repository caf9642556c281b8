// Gates: conditions under which a run does not pass, such as 'output_sqnr<20'.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/report/report.h"

namespace hif8 {

// Fails if `metric op limit` holds for any item that has the metric: any layer, network output,
// or K and V of any attention layer.
struct Gate {
  std::string text;    // as given
  std::string metric;  // "output_sqnr"
  std::string op;      // < <= > >=
  double limit = 0;
  bool regression = false;  // the limit is on how much worse the metric became since a baseline
};

// `text`: a metric (lib/report/metrics.h) or regression(METRIC), an operator and a limit. Throws a
// usage error with a suggestion for a text that is no gate, and for a regression unless
// `has_baseline`. "loss_gap" stands for "loss_gap_percent".
Gate ParseGate(const std::string& text, bool has_baseline = false);

// A condition that is to hold instead: a metric of what the network gives in the end, such as
// 'network_sqnr>=30'. Throws as ParseGate, and for metrics that say nothing about that or limits
// on the wrong side.
struct Goal {
  Gate gate;
  bool higher_is_better = true;
};
Goal ParseGoal(const std::string& text);

struct GateItem {
  std::string name;  // layer, output, "layer: k", or "network"
  Measured value;    // of a regression: by how much it is worse, negative when better
  bool failed = false;
  Measured now, was;  // of a regression
};

struct GateResult {
  Gate gate;
  std::vector<GateItem> items;
  size_t failures = 0;
  size_t unmatched = 0;  // of a regression: what only one of the reports has
  std::string error;  // why it could not be decided (nothing measured, or not everywhere); or empty

  bool Passed() const { return failures == 0 && error.empty(); }
  // Returns "gate output_sqnr<20 failed for 2 of 14: conv1 (12.34), conv2 (17.5)": the first ten.
  std::string Message() const;
  // Counts without names: "gate output_sqnr<20 failed for 2 of 14".
  std::string Summary() const;
  // Returns "18.25", or "1.2 worse: 17.05 after 18.25".
  std::string ValueText(const GateItem& item) const;
};

// `baseline` must be given for a regression; layers and outputs are matched by name, those that
// only one of the reports has are left out.
GateResult EvaluateGate(const Gate& gate, const Report& report, const Report* baseline = nullptr);
// The worst item's value. Throws kUsage when the metric was not measured, or not everywhere.
double WorstValue(const Goal& goal, const Report& report);
bool Holds(const Goal& goal, double value);

// Throws kUsage when a gate could not be decided, else kGate when one failed; the other errors are
// attached.
void RequireGates(std::span<const GateResult> results);

}  // namespace hif8
