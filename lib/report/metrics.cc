#include "lib/report/metrics.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/suggest.h"

namespace hif8 {
namespace {

using Values = std::vector<MetricValue>;
using Collect = std::function<Values(const Report&)>;

Collect OfOutputs(Measured NetworkOutputReport::*member) {
  return [member](const Report& report) {
    Values values;
    for (const NetworkOutputReport& output : report.network.outputs) {
      values.push_back({output.name, output.*member});
    }
    return values;
  };
}

Collect OfPerplexity(Measured PerplexityReport::*member) {
  return [member](const Report& report) {
    if (!report.network.perplexity) return Values();
    return Values{{"network", (*report.network.perplexity).*member}};
  };
}

Collect OfCoverage(Measured CoverageReport::*member) {
  return [member](const Report& report) { return Values{{"network", report.coverage.*member}}; };
}

Collect OfKvCache(Measured OperandReport::*member) {
  return [member](const Report& report) {
    Values values;
    for (const KvCacheReport& entry : report.kv_cache) {
      if (entry.k) values.push_back({entry.name + ": k", (*entry.k).*member});
      if (entry.v) values.push_back({entry.name + ": v", (*entry.v).*member});
    }
    return values;
  };
}

Values SizeRatio(const Report& report) {
  const ModelReport& model = report.model;
  if (!model.bytes_before || !model.bytes_after || *model.bytes_before == 0) return {};
  return {{"model",
           static_cast<double>(*model.bytes_after) / static_cast<double>(*model.bytes_before)}};
}

Values Size(const Report& report) {
  if (!report.model.bytes_after) return {};
  return {{"model", static_cast<double>(*report.model.bytes_after)}};
}

Values UnmatchedTensors(const Report& report) {
  if (!report.unmatched) return {};
  return {{"model", static_cast<double>(report.unmatched->size())}};
}

Collect OfLayers(const Column& column) {
  return [&column](const Report& report) {
    Values values;
    for (const LayerReport& layer : report.layers) {
      const Cell cell = column.get(layer);
      if (std::holds_alternative<std::monostate>(cell)) continue;  // does not apply to it
      values.push_back({layer.name, CellNumber(cell)});
    }
    return values;
  };
}

std::vector<Metric> BuildMetrics() {
  using Kind = ColumnKind;
  std::vector<Metric> metrics = {
      {"network_sqnr", "SQNR in dB of every network output", Kind::kDecibel, Better::kHigher,
       OfOutputs(&NetworkOutputReport::sqnr_db)},
      {"network_cosine", "cosine similarity of every network output", Kind::kNumber,
       Better::kHigher, OfOutputs(&NetworkOutputReport::cosine)},
      {"argmax_agreement", "share of positions whose largest element stays, of every output",
       Kind::kShare, Better::kHigher, OfOutputs(&NetworkOutputReport::argmax_agreement)},
      {"perplexity", "perplexity of the quantized network", Kind::kNumber, Better::kLower,
       OfPerplexity(&PerplexityReport::quantized)},
      {"loss_gap_percent", "rise of the loss in percent", Kind::kNumber, Better::kLower,
       OfPerplexity(&PerplexityReport::loss_gap_percent)},
      {"coverage", "share of parameters quantized", Kind::kShare, Better::kHigher,
       OfCoverage(&CoverageReport::parameters)},
      {"coverage_macs", "share of multiply-adds quantized", Kind::kShare, Better::kHigher,
       OfCoverage(&CoverageReport::macs)},
      {"size", "bytes of the written files", Kind::kBytes, Better::kLower, Size},
      {"size_ratio", "size of the files, after by before", Kind::kShare, Better::kLower, SizeRatio},
      {"unmatched", "tensors that only one of two compared models has", Kind::kCount,
       Better::kLower, UnmatchedTensors},
      {"kv_sqnr", "SQNR in dB of every cached K and V", Kind::kDecibel, Better::kHigher,
       OfKvCache(&OperandReport::sqnr_db)},
      {"kv_zero_rate", "zero rate of every cached K and V", Kind::kShare, Better::kLower,
       OfKvCache(&OperandReport::zero_rate)},
  };
  for (const Column& column : LayerColumns()) {
    if (column.kind == ColumnKind::kText) continue;
    metrics.push_back({column.name, column.help, column.kind, column.better, OfLayers(column)});
  }
  return metrics;
}

}  // namespace

const std::vector<Metric>& Metrics() {
  static const std::vector<Metric> kMetrics = BuildMetrics();
  return kMetrics;
}

const Metric& GetMetric(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const Metric& metric : Metrics()) {
    if (metric.name == name) return metric;
    names.push_back(metric.name);
  }
  throw UsageError(where + "unknown metric '" + name + "'", SuggestionHint(name, names));
}

Measured WorseBy(Better better, const Measured& current, const Measured& baseline) {
  if (!current || !baseline || better == Better::kNeither) return std::nullopt;
  if (*current == *baseline) return 0.0;
  return better == Better::kHigher ? *baseline - *current : *current - *baseline;
}

}  // namespace hif8
