#include "lib/report/comparison_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/report/summary.h"
#include "lib/report/text_util.h"

namespace hif8 {
namespace {

constexpr size_t kMostNames = 20;

bool IsLayerMetric(const Metric& metric) {
  return std::any_of(LayerColumns().begin(), LayerColumns().end(),
                     [&](const Column& column) { return column.name == metric.name; });
}

// "+1.25", "-0.3 %": in the unit of the metric.
std::string ChangeText(const ComparedValue& value, bool unicode) {
  const Measured change = value.Change();
  if (!change) return "-";
  if (*change == 0) return "=";
  const Measured size = std::fabs(*change);
  std::string text = (*change > 0 ? "+" : "-") + NumberText(value.metric->kind, size);
  const Measured worse = value.Worse();
  if (worse && *worse > 0) text += unicode ? " ▼" : " worse";
  return text;
}

std::vector<const Column*> ComparedColumns(const RunComparison& runs, const WriteOptions& options) {
  std::vector<const Column*> columns;
  if (!options.columns.empty()) {
    for (const Column* column : options.columns) {
      if (column->kind != ColumnKind::kText) columns.push_back(column);
    }
    return columns;
  }
  for (const char* name : {"output_sqnr", "accumulated_sqnr", "weight_sqnr", "activation_sqnr"}) {
    const bool any =
        std::any_of(runs.values.begin(), runs.values.end(),
                    [&](const ComparedValue& value) { return value.metric->name == name; });
    if (any) columns.push_back(&GetColumn(name));
  }
  return columns;
}

Measured MainWorsening(const ComparedLayer& layer) {
  return WorseBy(Better::kHigher, MainSqnr(*layer.current), MainSqnr(*layer.baseline));
}

std::string NameList(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    text += (i == 0 ? "" : ", ") + CleanText(names[i]);
  }
  if (names.size() > kMostNames) text += fmt::format(", and {} more", names.size() - kMostNames);
  return text;
}

// "only in the baseline: layer conv1, layer conv2".
void AddUnmatched(const RunComparison& runs, std::vector<std::string>* lines) {
  for (const bool in_current : {true, false}) {
    std::vector<std::string> names;
    for (const Unmatched& item : runs.unmatched) {
      if (item.in_current == in_current) names.push_back(item.kind + " " + item.name);
    }
    if (names.empty()) continue;
    const std::string& run = in_current ? runs.current_name : runs.baseline_name;
    lines->push_back("only in " + CleanText(run) + ": " + NameList(names));
  }
}

void AddRestated(const RunComparison& runs, std::vector<std::string>* lines) {
  for (const bool quantized : {true, false}) {
    std::vector<std::string> names;
    for (const ComparedLayer& layer : runs.restated) {
      if (layer.current->quantized == quantized) names.push_back(layer.current->name);
    }
    if (names.empty()) continue;
    lines->push_back((quantized ? "quantized now, kept before: " : "kept now, quantized before: ") +
                     NameList(names));
  }
}

}  // namespace

std::vector<ComparedLayer> UsualComparedLayers(const RunComparison& runs,
                                               const WriteOptions& options) {
  std::map<const LayerReport*, const LayerReport*> partners;
  for (const ComparedLayer& layer : runs.layers) partners[layer.current] = layer.baseline;
  Selection all = options.selection;
  all.top = 0;
  std::vector<ComparedLayer> layers;
  for (const LayerReport* layer : SelectLayers(runs.current->layers, all)) {
    const auto partner = partners.find(layer);
    if (partner != partners.end()) layers.push_back({layer, partner->second});
  }
  if (!options.sorted) {
    std::stable_sort(layers.begin(), layers.end(),
                     [](const ComparedLayer& a, const ComparedLayer& b) {
                       const Measured x = MainWorsening(a);
                       const Measured y = MainWorsening(b);
                       if (!x || !y) return x.has_value() && !y.has_value();
                       return *x > *y;
                     });
  }
  const size_t top = options.selection.top;
  if (top > 0 && layers.size() > top) layers.resize(top);
  return layers;
}

std::vector<std::vector<std::string>> ComparisonLines(const RunComparison& runs,
                                                      const WriteOptions& options) {
  const std::vector<const Column*> columns = ComparedColumns(runs, options);
  std::vector<std::vector<std::string>> lines = {{"layer"}};
  for (const Column* column : columns) {
    lines.front().push_back(column->title);
    lines.front().push_back("change");
  }
  for (const ComparedLayer& layer : UsualComparedLayers(runs, options)) {
    std::vector<std::string> line = {CleanText(layer.current->name)};
    for (const Column* column : columns) {
      const ComparedValue value{&GetMetric(column->name, ""), "",
                                CellNumber(column->get(*layer.current)),
                                CellNumber(column->get(*layer.baseline))};
      line.push_back(NumberText(column->kind, value.current));
      line.push_back(ChangeText(value, options.unicode));
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> ComparisonSummary(const RunComparison& runs, const WriteOptions& options) {
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{} compared with {}: {} layers in both",
                              CleanText(runs.current_name), CleanText(runs.baseline_name),
                              runs.layers.size()));
  for (const ComparedValue& value : runs.values) {
    if (IsLayerMetric(*value.metric)) continue;
    const ColumnKind kind = value.metric->kind;
    std::string line = value.metric->name;
    if (value.name != "network" && value.name != "model") line += " of " + CleanText(value.name);
    line += fmt::format(": {} after {}", NumberText(kind, value.current),
                        NumberText(kind, value.baseline));
    if (value.Change()) line += " (" + ChangeText(value, options.unicode) + ")";
    lines.push_back(line);
  }
  AddRestated(runs, &lines);
  AddUnmatched(runs, &lines);
  return lines;
}

}  // namespace hif8
