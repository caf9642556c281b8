#include <nlohmann/json.hpp>

#include "lib/report/json_number.h"
#include "lib/report/run_comparison.h"
#include "lib/report/text_util.h"

namespace hif8 {
namespace {

using Json = nlohmann::ordered_json;

Json RunJson(const Report& report, const std::string& name) {
  return {{"path", name},
          {"model", report.model.path},
          {"kind", report.model.kind},
          {"fingerprint", report.model.fingerprint},
          {"recipe", report.recipe.name},
          {"time", report.run.time}};
}

const char* StatusName(const LayerReport& layer) { return layer.quantized ? "quantized" : "kept"; }

}  // namespace

std::string ComparisonToJson(const RunComparison& runs) {
  Json root = {{"schema", kComparisonSchema},
               {"current", RunJson(*runs.current, runs.current_name)},
               {"baseline", RunJson(*runs.baseline, runs.baseline_name)},
               {"values", Json::array()},
               {"restated", Json::array()},
               {"unmatched", Json::array()}};
  for (const ComparedValue& value : runs.values) {
    root["values"].push_back({{"metric", value.metric->name},
                              {"name", value.name},
                              {"current", NumberJson(value.current)},
                              {"baseline", NumberJson(value.baseline)},
                              {"change", NumberJson(value.Change())},
                              {"worse_by", NumberJson(value.Worse())}});
  }
  for (const ComparedLayer& layer : runs.restated) {
    root["restated"].push_back({{"layer", layer.current->name},
                                {"current", StatusName(*layer.current)},
                                {"baseline", StatusName(*layer.baseline)}});
  }
  for (const Unmatched& item : runs.unmatched) {
    root["unmatched"].push_back({{"kind", item.kind},
                                 {"name", item.name},
                                 {"in", item.in_current ? "current" : "baseline"}});
  }
  return CleanJson(root.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

}  // namespace hif8
