#include "apps/hif8-calibrate/plan_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "apps/common/plan_summary.h"
#include "lib/report/text_util.h"

namespace hif8 {
namespace {

using Json = nlohmann::ordered_json;

std::string OperandText(const OperandPlan& plan) {
  return fmt::format("{} {} {}", plan.format->name(), NameOf(plan.config.granularity),
                     plan.rule->name());
}

// What a layer's weight is and becomes; null: it is not quantized.
struct WeightRow {
  const Weight& stored;
  const WeightPlan* plan;

  uint64_t before() const { return stored.size() * DTypeSize(stored.dtype); }
  uint64_t after() const { return plan == nullptr ? before() : StoredBytes(*plan); }
};

std::optional<WeightRow> WeightOf(const Model& model, const QuantPlan& plan, size_t index) {
  const int weight = model.layers()[index].weight;
  if (weight < 0) return std::nullopt;
  return WeightRow{model.weights()[static_cast<size_t>(weight)],
                   plan.layers[index].quantized ? &plan.weights.at(weight) : nullptr};
}

// The plan of an activation that a layer reads; null: there is none, or it is not quantized.
const OperandPlan* InputOf(const QuantPlan& plan, size_t layer, int activation) {
  return plan.layers[layer].quantized ? plan.FindActivation(activation) : nullptr;
}

std::vector<std::string> TextRow(const Model& model, const QuantPlan& plan, size_t index) {
  const Layer& layer = model.layers()[index];
  const LayerPlan& decided = plan.layers[index];
  std::string text = "-", before = "-", after = "-";
  if (const auto weight = WeightOf(model, plan, index)) {
    text = ShapeText(weight->stored.shape) + " " + std::string(DTypeName(weight->stored.dtype));
    if (weight->plan != nullptr) text += " -> " + OperandText(*weight->plan);
    before = BytesText(static_cast<int64_t>(weight->before()));
    after = BytesText(static_cast<int64_t>(weight->after()));
  }
  std::string input = decided.quantized ? "-" : CleanText("kept: " + decided.reason);
  if (plan.IsWeightOnly(model, index)) input = "stays";
  if (const OperandPlan* read = InputOf(plan, index, layer.activation)) input = OperandText(*read);
  return {CleanText(layer.name), layer.op, text, input, before, after};
}

// Names are those of report.json.
Json OperandJson(const OperandPlan* plan) {
  if (plan == nullptr) return nullptr;
  return {{"format", plan->format->name()},
          {"granularity", NameOf(plan->config.granularity)},
          {"scale_rule", plan->rule->name()},
          {"static", plan->HasStaticScale()}};
}

Json WeightJson(const std::optional<WeightRow>& weight) {
  if (!weight) return nullptr;
  Json json = {{"shape", weight->stored.shape}, {"dtype", DTypeName(weight->stored.dtype)}};
  const WeightPlan* plan = weight->plan;
  json["format"] = plan == nullptr ? Json() : Json(plan->format->name());
  json["granularity"] = plan == nullptr ? Json() : Json(NameOf(plan->config.granularity));
  json["scale_rule"] = plan == nullptr ? Json() : Json(plan->rule->name());
  json["bytes_before"] = weight->before();
  json["bytes_after"] = weight->after();
  return json;
}

Json LayerJson(const Model& model, const QuantPlan& plan, size_t index) {
  const Layer& layer = model.layers()[index];
  return {{"name", layer.name},
          {"op", layer.op},
          {"kind", NameOf(layer.kind)},
          {"status", plan.layers[index].quantized ? "quantized" : "kept"},
          {"reason", plan.layers[index].reason},
          {"weight", WeightJson(WeightOf(model, plan, index))},
          {"activation", OperandJson(InputOf(plan, index, layer.activation))},
          {"second_activation", OperandJson(InputOf(plan, index, layer.second_activation))}};
}

}  // namespace

std::string PlanText(const Model& model, const QuantPlan& plan) {
  std::vector<std::vector<std::string>> table = {
      {"layer", "op", "weight", "input", "before", "after"}};
  for (size_t i = 0; i < plan.layers.size(); ++i) table.push_back(TextRow(model, plan, i));
  const PlanSummary summary = Summarize(model, plan);
  std::string text = AlignedColumns(table, 4) + "\n" + PlanLine(summary) + "\n";
  if (summary.coverage.unknown_macs > 0) {
    text += fmt::format(
        "multiply-adds of {} convolutions are not known: files do not say over how "
        "many places they go\n",
        summary.coverage.unknown_macs);
  }
  if (const std::string caveat = model.caveat(); !caveat.empty()) {
    text += CleanText(caveat) + "\n";
  }
  return text;
}

std::string PlanJson(const Model& model, const QuantPlan& plan) {
  Json layers = Json::array();
  for (size_t i = 0; i < plan.layers.size(); ++i) layers.push_back(LayerJson(model, plan, i));
  const Json document = {{"schema", "hif8.plan/2"},
                         {"layers", std::move(layers)},
                         {"summary", PlanSummaryJson(Summarize(model, plan))},
                         {"caveat", model.caveat()}};
  return CleanJson(document.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

}  // namespace hif8
