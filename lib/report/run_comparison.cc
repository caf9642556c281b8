#include "lib/report/run_comparison.h"

#include <map>
#include <utility>

namespace hif8 {
namespace {

// Names of one kind in both reports; what has no partner goes to `unmatched`.
template <typename Item>
void Match(const char* kind, const std::vector<Item>& current, const std::vector<Item>& baseline,
           std::vector<Unmatched>* only_current, std::vector<Unmatched>* only_baseline,
           std::vector<std::pair<const Item*, const Item*>>* pairs) {
  std::map<std::string, const Item*> partners;
  for (const Item& item : baseline) partners.emplace(item.name, &item);
  for (const Item& item : current) {
    const auto partner = partners.find(item.name);
    if (partner == partners.end()) {
      only_current->push_back({kind, item.name, true});
      continue;
    }
    if (pairs != nullptr) pairs->emplace_back(&item, partner->second);
    partners.erase(partner);
  }
  for (const Item& item : baseline) {
    if (partners.contains(item.name)) only_baseline->push_back({kind, item.name, false});
  }
}

void CompareMetric(const Metric& metric, const Report& current, const Report& baseline,
                   std::vector<ComparedValue>* values) {
  std::map<std::string, Measured> before;
  for (const MetricValue& value : metric.collect(baseline)) before[value.name] = value.value;
  for (const MetricValue& value : metric.collect(current)) {
    const auto partner = before.find(value.name);
    if (partner == before.end() || (!value.value && !partner->second)) continue;
    values->push_back({&metric, value.name, value.value, partner->second});
  }
}

}  // namespace

Measured ComparedValue::Change() const {
  if (!current || !baseline) return std::nullopt;
  return *current == *baseline ? 0.0 : *current - *baseline;
}

RunComparison CompareRuns(const Report& current, std::string current_name, const Report& baseline,
                          std::string baseline_name) {
  RunComparison result{
      &current, &baseline, std::move(current_name), std::move(baseline_name), {}, {}, {}, {}};
  std::vector<Unmatched> only_baseline;
  std::vector<std::pair<const LayerReport*, const LayerReport*>> layers;
  std::vector<Unmatched>* const ours = &result.unmatched;
  Match("layer", current.layers, baseline.layers, ours, &only_baseline, &layers);
  Match<KvCacheReport>("cache", current.kv_cache, baseline.kv_cache, ours, &only_baseline, nullptr);
  Match<NetworkOutputReport>("output", current.network.outputs, baseline.network.outputs, ours,
                             &only_baseline, nullptr);
  result.unmatched.insert(result.unmatched.end(), only_baseline.begin(), only_baseline.end());
  for (const auto& [ours_layer, theirs] : layers) {
    result.layers.push_back({ours_layer, theirs});
    if (ours_layer->quantized != theirs->quantized) result.restated.push_back(result.layers.back());
  }
  for (const Metric& metric : Metrics()) CompareMetric(metric, current, baseline, &result.values);
  return result;
}

}  // namespace hif8
