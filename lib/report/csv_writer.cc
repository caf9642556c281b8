#include "lib/report/text_util.h"
#include "lib/report/writers.h"

namespace hif8 {
namespace {

// RFC 4180.
std::string Field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

// Text as a cell: spreadsheets take what begins with one of these for a formula; an apostrophe in
// front makes it text.
std::string TextField(const std::string& text) {
  const std::string clean = CleanText(text);
  const bool formula =
      !clean.empty() && std::string_view("=+-@").find(clean[0]) != std::string_view::npos;
  return Field(formula ? "'" + clean : clean);
}

std::string CellField(const Cell& cell) {
  const std::string text = CellExactText(cell);
  return std::holds_alternative<std::string>(cell) ? TextField(text) : text;
}

class CsvWriter : public ReportWriter {
 public:
  std::string_view name() const override { return "csv"; }
  std::string_view description() const override {
    return "one line per layer, exact numbers, every column";
  }
  std::string Write(const Report& report, const WriteOptions& options) const override {
    std::vector<const Column*> columns = options.columns;
    if (columns.empty()) {
      for (const Column& column : LayerColumns()) columns.push_back(&column);
    }
    std::string text;
    for (const Column* column : columns) {
      text += (column == columns.front() ? "" : ",") + column->name;
    }
    text += "\r\n";
    for (const LayerReport* layer : SelectLayers(report.layers, options.selection)) {
      std::string line;
      for (const Column* column : columns) {
        line += (column == columns.front() ? "" : ",") + CellField(column->get(*layer));
      }
      text += line + "\r\n";
    }
    return text;
  }
  std::string WriteComparison(const RunComparison& runs,
                              const WriteOptions& /*options*/) const override {
    std::string text = "metric,name,current,baseline,change,worse_by\r\n";
    for (const ComparedValue& value : runs.values) {
      text += value.metric->name + "," + TextField(value.name);
      for (const Measured& number :
           {value.current, value.baseline, value.Change(), value.Worse()}) {
        text += "," + ExactText(number);
      }
      text += "\r\n";
    }
    return text;
  }
};

}  // namespace

std::shared_ptr<const ReportWriter> MakeCsvWriter() { return std::make_shared<CsvWriter>(); }

}  // namespace hif8
