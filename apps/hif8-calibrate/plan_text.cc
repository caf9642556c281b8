#include "apps/hif8-calibrate/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "lib/core/memory.h"
#include "lib/report/text_util.h"

namespace hif8 {
namespace {

// One line of the plan.
struct Row {
  std::string layer;
  std::string op;
  std::string weight;      // "[64, 32] F32 -> hif8 channel max"
  std::string activation;  // "hif8 tensor max"
  uint64_t before = 0;     // bytes
  uint64_t after = 0;
  std::string reason;  // empty: quantized
};

std::string OperandText(const OperandPlan& plan) {
  return fmt::format("{} {} {}", plan.format->name(), NameOf(plan.config.granularity),
                     plan.rule->name());
}

Row MakeRow(const Model& model, const QuantPlan& plan, size_t index) {
  const Layer& layer = model.layers()[index];
  const LayerPlan& layer_plan = plan.layers[index];
  Row row{layer.name, layer.op, "-", "-", 0, 0, layer_plan.reason};
  if (layer.weight >= 0) {
    const Weight& weight = model.weights()[static_cast<size_t>(layer.weight)];
    row.weight = ShapeText(weight.shape) + " " + std::string(DTypeName(weight.dtype));
    row.before = row.after = weight.size() * DTypeSize(weight.dtype);
    if (layer_plan.quantized) {
      const WeightPlan& weight_plan = plan.weights.at(layer.weight);
      row.weight += " -> " + OperandText(weight_plan);
      row.after = StoredBytes(weight_plan);
    }
  }
  if (layer_plan.quantized && layer.activation >= 0) {
    row.activation = OperandText(plan.activations.at(layer.activation));
  }
  return row;
}

std::vector<Row> MakeRows(const Model& model, const QuantPlan& plan) {
  std::vector<Row> rows;
  for (size_t i = 0; i < plan.layers.size(); ++i) rows.push_back(MakeRow(model, plan, i));
  return rows;
}

// Bytes of all weights that layers use, each counted once.
std::array<uint64_t, 2> TotalBytes(const Model& model, const QuantPlan& plan) {
  std::array<uint64_t, 2> total{};
  for (size_t i = 0; i < model.weights().size(); ++i) {
    const Weight& weight = model.weights()[i];
    const uint64_t before = weight.size() * DTypeSize(weight.dtype);
    const auto at = plan.weights.find(static_cast<int>(i));
    total[0] += before;
    total[1] += at == plan.weights.end() ? before : StoredBytes(at->second);
  }
  return total;
}

size_t QuantizedCount(const QuantPlan& plan) {
  return static_cast<size_t>(std::count_if(plan.layers.begin(), plan.layers.end(),
                                           [](const LayerPlan& l) { return l.quantized; }));
}

}  // namespace

std::string PlanText(const Model& model, const QuantPlan& plan) {
  std::vector<std::array<std::string, 6>> table = {
      {"layer", "op", "weight", "input", "before", "after"}};
  for (const Row& row : MakeRows(model, plan)) {
    table.push_back({CleanText(row.layer), row.op, row.weight,
                     row.reason.empty() ? row.activation : CleanText("kept: " + row.reason),
                     SizeText(row.before), SizeText(row.after)});
  }
  std::array<size_t, 6> width{};
  for (const auto& line : table) {
    for (size_t c = 0; c < line.size(); ++c) width[c] = std::max(width[c], DisplayWidth(line[c]));
  }
  std::string text;
  for (const auto& line : table) {
    for (size_t c = 0; c < line.size(); ++c) {
      const std::string space(width[c] - DisplayWidth(line[c]), ' ');
      text += (c == 0 ? "" : "  ") + (c < 4 ? line[c] + space : space + line[c]);
    }
    text += "\n";
  }
  const auto [before, after] = TotalBytes(model, plan);
  const Coverage coverage = ComputeCoverage(model, plan);
  const std::string macs =
      std::isnan(coverage.macs)
          ? "multiply-adds unknown (free shapes)"
          : fmt::format("{:.1f} % of known multiply-adds", 100 * coverage.macs);
  text += fmt::format("\n{} of {} layers quantized: {:.1f} % of parameters, {}; weights {} -> {}\n",
                      QuantizedCount(plan), plan.layers.size(), 100 * coverage.parameters, macs,
                      SizeText(before), SizeText(after));
  if (coverage.unknown_macs > 0) {
    text += fmt::format(
        "multiply-adds of {} convolutions are not known: files do not say over how "
        "many places they go\n",
        coverage.unknown_macs);
  }
  if (const std::string caveat = model.caveat(); !caveat.empty()) {
    text += CleanText(caveat) + "\n";
  }
  return text;
}

std::string PlanJson(const Model& model, const QuantPlan& plan) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const Row& row : MakeRows(model, plan)) {
    nlohmann::ordered_json entry = {{"layer", row.layer},
                                    {"op", row.op},
                                    {"status", row.reason.empty() ? "quantized" : "kept"},
                                    {"reason", row.reason},
                                    {"weight", row.weight},
                                    {"input", row.activation},
                                    {"bytes_before", row.before},
                                    {"bytes_after", row.after}};
    layers.push_back(std::move(entry));
  }
  const auto [before, after] = TotalBytes(model, plan);
  const Coverage coverage = ComputeCoverage(model, plan);
  nlohmann::ordered_json macs;  // null when unknown
  if (!std::isnan(coverage.macs)) macs = coverage.macs;
  const nlohmann::ordered_json document = {{"schema", "hif8.plan/1"},
                                           {"layers", layers},
                                           {"coverage",
                                            {{"parameters", coverage.parameters},
                                             {"macs", macs},
                                             {"layers_without_known_macs", coverage.unknown_macs}}},
                                           {"caveat", model.caveat()},
                                           {"bytes_before", before},
                                           {"bytes_after", after}};
  return CleanJson(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)) + "\n";
}

}  // namespace hif8
