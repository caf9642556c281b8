// Two runs side by side: what became of every metric, matched by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/report/metrics.h"
#include "lib/report/report.h"

namespace hif8 {

struct ComparedValue {
  const Metric* metric;
  std::string name;  // as MetricValue's
  Measured current, baseline;

  Measured Change() const;  // current - baseline; 0 for two equal infinities
  Measured Worse() const { return WorseBy(metric->better, current, baseline); }
};

// Lists what only one of two runs has.
struct Unmatched {
  std::string kind;  // "layer", "cache", "output"
  std::string name;
  bool in_current = false;  // else in the baseline
};

struct ComparedLayer {
  const LayerReport* current;
  const LayerReport* baseline;
};

struct RunComparison {
  const Report* current;
  const Report* baseline;
  std::string current_name, baseline_name;  // as on the command line

  std::vector<ComparedLayer> layers;    // both have, in the order of `current`
  std::vector<ComparedValue> values;    // measured in either, of whatever both have
  std::vector<Unmatched> unmatched;     // those of `current` first
  std::vector<ComparedLayer> restated;  // quantized in one, kept in the other
};

// The reports must outlive the result.
RunComparison CompareRuns(const Report& current, std::string current_name, const Report& baseline,
                          std::string baseline_name);

inline constexpr std::string_view kComparisonSchema = "hif8.comparison/1";
// docs/comparison.schema.json; two-space indented, a line break at the end.
std::string ComparisonToJson(const RunComparison& runs);

}  // namespace hif8
