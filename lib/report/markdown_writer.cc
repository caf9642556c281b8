#include "lib/report/comparison_table.h"
#include "lib/report/summary.h"
#include "lib/report/text_util.h"
#include "lib/report/writers.h"

namespace hif8 {
namespace {

// Text that Markdown shows as it is.
std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : CleanText(text)) {
    if (std::string_view("\\`*_{}[]<>|#~").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string GateLines(const WriteOptions& options) {
  std::string text;
  for (const GateResult& gate : options.gates) {
    text += std::string("* ") + (gate.Passed() ? "passed" : "**failed**") + ": " +
            Escaped(gate.Message()) + "\n";
  }
  return text;
}

class MarkdownWriter : public ReportWriter {
 public:
  std::string_view name() const override { return "markdown"; }
  std::string_view description() const override {
    return "a table for issues, pull requests and job summaries";
  }
  std::string Write(const Report& report, const WriteOptions& options) const override {
    const std::vector<const LayerReport*> layers = UsualLayers(report, options);
    const std::vector<const Column*> columns = UsualColumns(layers, options);
    std::string text = "## Quantization report\n\n";
    for (const std::string& line : SummaryLines(report)) text += "* " + Escaped(line) + "\n";
    text += GateLines(options) + "\n|";
    for (const Column* column : columns) text += " " + column->title + " |";
    text += "\n|";
    for (const Column* column : columns) {
      text += column->kind == ColumnKind::kText ? " --- |" : " ---: |";
    }
    text += "\n";
    for (const LayerReport* layer : layers) {
      text += "|";
      for (const Column* column : columns) {
        text += " " + Escaped(CellText(*column, column->get(*layer))) + " |";
      }
      text += "\n";
    }
    return text;
  }
  std::string WriteComparison(const RunComparison& runs,
                              const WriteOptions& options) const override {
    std::string text = "## Quantization compared\n\n";
    for (const std::string& line : ComparisonSummary(runs, options)) {
      text += "* " + Escaped(line) + "\n";
    }
    text += GateLines(options) + "\n";
    bool head = true;
    for (const std::vector<std::string>& line : ComparisonLines(runs, options)) {
      text += "|";
      for (const std::string& cell : line) text += " " + Escaped(cell) + " |";
      text += "\n";
      if (!head) continue;
      head = false;
      text += "| --- |";
      for (size_t c = 1; c < line.size(); ++c) text += " ---: |";
      text += "\n";
    }
    return text;
  }
};

}  // namespace

std::shared_ptr<const ReportWriter> MakeMarkdownWriter() {
  return std::make_shared<MarkdownWriter>();
}

}  // namespace hif8
