#include "apps/common/plan_summary.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/report/summary.h"

namespace hif8 {

std::string PlanLine(const PlanSummary& summary) {
  QuantizedCounts counts;
  counts.layers = summary.layers;
  counts.quantized = summary.quantized;
  counts.weight_only = summary.weight_only;
  counts.caches = summary.caches;
  counts.coverage = {summary.coverage.parameters, ToMeasured(summary.coverage.macs)};
  counts.sizes_of = "weights ";
  counts.bytes_before = static_cast<int64_t>(summary.bytes_before);
  counts.bytes_after = static_cast<int64_t>(summary.bytes_after);
  return CountsLine(counts);
}

nlohmann::ordered_json PlanSummaryJson(const PlanSummary& summary) {
  const Coverage& coverage = summary.coverage;
  nlohmann::ordered_json json = {{"layers", summary.layers},
                                 {"quantized", summary.quantized},
                                 {"weight_only", summary.weight_only},
                                 {"caches", summary.caches},
                                 {"bytes_before", summary.bytes_before},
                                 {"bytes_after", summary.bytes_after},
                                 {"parameters", coverage.parameters},
                                 {"macs", nullptr},
                                 {"layers_without_known_macs", coverage.unknown_macs}};
  if (!std::isnan(coverage.macs)) json["macs"] = coverage.macs;
  return json;
}

}  // namespace hif8
