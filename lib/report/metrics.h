// Everything that a report measures, by name: what gates hold against limits and what two runs are
// compared by.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/report/columns.h"
#include "lib/report/report.h"

namespace hif8 {

struct MetricValue {
  std::string name;  // of the layer or output, "attention: k", "network" or "model"
  Measured value;    // empty: it applies but was not measured
};

struct Metric {
  std::string name;  // "network_sqnr"; those of layers are named as their columns
  std::string help;
  ColumnKind kind = ColumnKind::kNumber;
  Better better = Better::kNeither;
  std::function<std::vector<MetricValue>(const Report&)> collect;
};

// Returns the metrics of the network, then every numeric column of the table of layers.
const std::vector<Metric>& Metrics();
// Throws a usage error with a suggestion, whose message begins with `where`.
const Metric& GetMetric(const std::string& name, const std::string& where);

// Tells by how much `current` is worse than `baseline` (negative: better), in the metric's unit;
// nothing where either was not measured or neither way is better. Two equal infinities: 0.
Measured WorseBy(Better better, const Measured& current, const Measured& baseline);

}  // namespace hif8
