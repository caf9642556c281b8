#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "lib/report/comparison_table.h"
#include "lib/report/html_assets.h"
#include "lib/report/html_study.h"
#include "lib/report/json_number.h"
#include "lib/report/summary.h"
#include "lib/report/text_util.h"
#include "lib/report/writers.h"

namespace hif8 {
namespace {

using Json = nlohmann::ordered_json;

Json CellJson(const Cell& cell) {
  if (const std::string* text = std::get_if<std::string>(&cell)) return *text;
  return NumberJson(CellNumber(cell));
}

const char* KindName(ColumnKind kind) {
  static const std::map<ColumnKind, const char*> kKinds = {
      {ColumnKind::kText, "text"},   {ColumnKind::kDecibel, "decibel"},
      {ColumnKind::kShare, "share"}, {ColumnKind::kNumber, "number"},
      {ColumnKind::kCount, "count"}, {ColumnKind::kBytes, "bytes"},
  };
  return kKinds.at(kind);
}

Json ColumnsJson() {
  Json columns = Json::array();
  for (const Column& column : LayerColumns()) {
    columns.push_back({{"name", column.name},
                       {"title", column.title},
                       {"kind", KindName(column.kind)},
                       {"help", column.help}});
  }
  return columns;
}

Json ExponentsJson(const std::optional<ExponentReport>& exponents) {
  if (!exponents) return nullptr;
  Json bands = Json::array();
  for (const BandShare& band : exponents->bands) {
    bands.push_back({{"bits", band.bits}, {"share", NumberJson(band.share)}});
  }
  return {{"first", exponents->first},
          {"counts", exponents->counts},
          {"zeros", exponents->zeros},
          {"bands", bands},
          {"below", NumberJson(exponents->below)},
          {"above", NumberJson(exponents->above)}};
}

Json ExponentsJson(const LayerReport& layer) {
  Json operands = Json::object();
  const auto add = [&](const char* name, const std::optional<OperandReport>& operand) {
    if (!operand || (!operand->exponents_before && !operand->exponents_after)) return;
    operands[name] = {{"before", ExponentsJson(operand->exponents_before)},
                      {"after", ExponentsJson(operand->exponents_after)}};
  };
  add("weight", layer.weight);
  add("activation", layer.activation);
  return operands;
}

// Formats once, then a line per layer and operand: names of layers are most of the bytes.
Json ComparisonsJson(const std::vector<ComparisonReport>& comparisons) {
  std::vector<std::string> formats;
  std::map<std::pair<std::string, std::string>, size_t> lines;
  Json rows = Json::array();
  for (const ComparisonReport& row : comparisons) {
    auto format = std::find(formats.begin(), formats.end(), row.format);
    if (format == formats.end()) format = formats.insert(format, row.format);
    const auto [line, added] = lines.emplace(std::pair(row.layer, row.operand), rows.size());
    if (added) rows.push_back({row.layer, row.operand, Json::array()});
    const size_t at = static_cast<size_t>(format - formats.begin());
    Json& values = rows[line->second][2];
    while (values.size() <= at) values.push_back(Json::array());
    values[at] = {NumberJson(row.sqnr_db), NumberJson(row.zero_rate)};
  }
  return {{"formats", formats}, {"rows", rows}};
}

Json DataOf(const Report& report, const WriteOptions& options) {
  Report rest = report;  // what has no compact form of its own
  rest.layers.clear();
  rest.comparisons.clear();
  Json data;
  if (rest.delayed_study) {
    data["delayed"] = StudyForPage(*rest.delayed_study);
    rest.delayed_study->rules.clear();
    rest.delayed_study->traces.clear();
  }
  data["report"] = Json::parse(ReportToJson(rest, true));
  data["columns"] = ColumnsJson();
  data["rows"] = Json::array();
  data["depth"] = Json::array();
  data["exponents"] = Json::array();
  for (const LayerReport* layer : UsualLayers(report, options)) {
    Json cells = Json::array();
    for (const Column& column : LayerColumns()) cells.push_back(CellJson(column.get(*layer)));
    data["rows"].push_back(std::move(cells));
    data["depth"].push_back(layer - report.layers.data());
    data["exponents"].push_back(ExponentsJson(*layer));
  }
  data["sorted"] = options.sorted;
  data["layers"] = report.layers.size();
  data["quantized"] = std::count_if(report.layers.begin(), report.layers.end(),
                                    [](const LayerReport& layer) { return layer.quantized; });
  data["comparisons"] = ComparisonsJson(report.comparisons);
  data["gates"] = Json::array();
  for (const GateResult& gate : options.gates) {
    data["gates"].push_back({{"passed", gate.Passed()}, {"message", gate.Message()}});
  }
  return data;
}

// The page shows strings as they are.
void CleanStrings(Json& data) {
  if (data.is_string()) data = CleanLines(data.get_ref<const std::string&>());
  if (!data.is_structured()) return;
  for (Json& item : data) CleanStrings(item);
}

// JSON that can stand inside of a script element: no tag begins in it, no comment either.
std::string ScriptSafe(Json data) {
  CleanStrings(data);
  std::string safe;
  for (const char c : data.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    safe += c == '<' ? "\\u003c" : std::string(1, c);
  }
  return safe;
}

std::string Fill(std::string_view page, const std::map<std::string_view, std::string>& parts) {
  std::string text;
  while (true) {
    const size_t begin = page.find("{{");
    text += page.substr(0, begin);
    if (begin == std::string_view::npos) return text;
    const size_t end = page.find("}}", begin);
    text += parts.at(page.substr(begin + 2, end - begin - 2));
    page.remove_prefix(end + 2);
  }
}

// The other run: its values in the order of Metrics' layer columns, and what concerns the network.
Json BaselineJson(const RunComparison& runs, const WriteOptions& options) {
  Json baseline = Json::parse(ComparisonToJson(runs));
  Json values = Json::array();  // [metric, name, current, baseline, worse by]
  for (const Json& value : baseline["values"]) {
    values.push_back(
        {value["metric"], value["name"], value["current"], value["baseline"], value["worse_by"]});
  }
  baseline["values"] = std::move(values);
  baseline["kinds"] = Json::object();
  for (const Metric& metric : Metrics()) baseline["kinds"][metric.name] = KindName(metric.kind);
  baseline["summary"] = ComparisonSummary(runs, options);
  return baseline;
}

std::string Page(const Report& report, const Json& data) {
  namespace assets = html_assets;
  return Fill(assets::kPage,
              {{"title", EscapeMarkup(CleanText("Quantization report: " + report.model.path))},
               {"library_style", std::string(assets::kLibraryStyle)},
               {"style", std::string(assets::kStyle)},
               {"library", std::string(assets::kLibrary)},
               {"library_licence", EscapeMarkup(assets::kLibraryLicence)},
               {"script", std::string(assets::kScript)},
               {"data", ScriptSafe(data)}});
}

class HtmlWriter : public ReportWriter {
 public:
  std::string_view name() const override { return "html"; }
  std::string_view description() const override {
    return "one file for a browser: charts, histograms, a table to sort and filter";
  }
  std::string Write(const Report& report, const WriteOptions& options) const override {
    return Page(report, DataOf(report, options));
  }
  std::string WriteComparison(const RunComparison& runs,
                              const WriteOptions& options) const override {
    Json data = DataOf(*runs.current, options);
    data["baseline"] = BaselineJson(runs, options);
    return Page(*runs.current, data);
  }
};

}  // namespace

std::shared_ptr<const ReportWriter> MakeHtmlWriter() { return std::make_shared<HtmlWriter>(); }

}  // namespace hif8
