#include "lib/report/html_study.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <utility>

#include "lib/report/json_number.h"
#include "lib/report/report_fields.h"

namespace hif8 {
namespace {

using Json = nlohmann::ordered_json;

// Of all traces of a page together: about half a megabyte.
constexpr size_t kMostPoints = 12'000;

Json Value(const std::string& text) { return text; }
Json Value(const std::optional<int64_t>& count) { return count ? Json(*count) : Json(nullptr); }
Json Value(const Measured& number) {
  if (!number) return nullptr;
  return NumberJson(std::strtod(fmt::format("{:.6g}", *number).c_str(), nullptr));
}

Json LayersJson(const std::vector<DelayedRuleReport>& rules) {
  Json layers = Json::array();
  std::map<std::string, size_t> places;
  for (const DelayedRuleReport& rule : rules) {
    const auto [place, added] = places.emplace(rule.layer, layers.size());
    if (added) layers.push_back({rule.layer, Json::array()});
    Json values = Json::array();
    Fields(rule, [&](std::string_view name, const auto& member) {
      if (name != "layer") values.push_back(Value(member));
    });
    layers[place->second][1].push_back(std::move(values));
  }
  return layers;
}

Json FieldNames() {
  Json names = Json::array();
  const DelayedRuleReport any;
  Fields(any, [&](std::string_view name, const auto&) {
    if (name != "layer") names.push_back(name);
  });
  return names;
}

// Places of a trace, one of every `stride` neighbours: that with the largest amax.
std::vector<size_t> Peaks(const DelayedTraceReport& trace, size_t stride) {
  std::vector<size_t> peaks;
  for (size_t i = 0; i < trace.amax.size(); ++i) {
    if (i % stride == 0) {
      peaks.push_back(i);
    } else if (trace.amax[i] > trace.amax[peaks.back()]) {  // nothing is less than any number
      peaks.back() = i;
    }
  }
  return peaks;
}

Json TraceJson(const DelayedTraceReport& trace, size_t stride) {
  const std::vector<size_t> peaks = Peaks(trace, stride);
  Json json = {{"layers", trace.layers}};
  json["stride"] = trace.stride.value_or(1) * static_cast<int64_t>(stride);
  json["steps"] = Json::array();
  for (const size_t i : peaks) {
    if (i < trace.steps.size()) json["steps"].push_back(trace.steps[i]);
  }
  for (const auto& [name, numbers] :
       {std::pair("amax", &trace.amax), std::pair("most_recent", &trace.most_recent),
        std::pair("exp_smooth", &trace.exp_smooth), std::pair("max", &trace.max)}) {
    json[name] = Json::array();
    for (const size_t i : peaks) {
      json[name].push_back(i < numbers->size() ? Value((*numbers)[i]) : Json(nullptr));
    }
  }
  return json;
}

}  // namespace

Json StudyForPage(const DelayedStudyReport& study) {
  size_t points = 0;
  for (const DelayedTraceReport& trace : study.traces) points += trace.amax.size();
  size_t stride = 1;
  while (points / stride > kMostPoints) stride *= 2;
  Json traces = Json::array();
  for (const DelayedTraceReport& trace : study.traces) traces.push_back(TraceJson(trace, stride));
  return {{"fields", FieldNames()}, {"layers", LayersJson(study.rules)}, {"traces", traces}};
}

}  // namespace hif8
