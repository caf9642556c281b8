#include "apps/hif8-report/report_program.h"

#include <nlohmann/json.hpp>

#include "apps/hif8-report/inspect.h"
#include "apps/hif8-report/pair_report.h"
#include "apps/hif8-report/task.h"
#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/core/output_dir.h"
#include "lib/report/advice.h"
#include "lib/report/format_table.h"
#include "lib/report/metrics.h"
#include "lib/report/text_util.h"
#include "lib/report/writer.h"

namespace hif8 {
namespace {

using cli::OptionGroup;
using cli::OptionKind;
using cli::OptionSpec;
using Json = nlohmann::ordered_json;

constexpr int64_t kUsualAdvice = 10;  // layers

std::vector<OptionSpec> Options() {
  const auto output = OptionGroup::kOutput;
  return {
      {.name = "OUT",
       .kind = OptionKind::kPositional,
       .group = OptionGroup::kInput,
       .help = "folder that hif8-calibrate wrote, or its report.json; before a quantized model the "
               "original; or the word inspect before any model",
       .required = true,
       .brief = true},
      {.name = "OTHER",
       .kind = OptionKind::kPositional,
       .group = OptionGroup::kInput,
       .help =
           "baseline that the report OUT is compared with, quantized model that the model OUT is, "
           "or the model to inspect"},
      {.name = "to",
       .kind = OptionKind::kChoice,
       .group = output,
       .value = "FORM",
       .help = "form of the result",
       .choices = ReportWriters().names(),
       .default_text = "text",
       .brief = true},
      {.name = "output",
       .letter = 'o',
       .kind = OptionKind::kPath,
       .group = output,
       .value = "FILE",
       .help = "write the result there instead of to stdout",
       .brief = true},
      {.name = "sort",
       .kind = OptionKind::kText,
       .group = output,
       .value = "COLUMN",
       .help = "order of the layers; COLUMN:desc for the largest first",
       .default_text = "text and markdown: worst output SQNR first",
       .brief = true},
      {.name = "top",
       .kind = OptionKind::kCount,
       .group = output,
       .value = "N",
       .help = "only the first N layers",
       .brief = true},
      {.name = "where",
       .kind = OptionKind::kText,
       .group = output,
       .value = "COND",
       .help = "only layers with column=value, column~regex or a comparison like output_sqnr<20",
       .repeatable = true,
       .brief = true},
      {.name = "compare",
       .group = output,
       .help = "number formats and scale rules side by side (after hif8-calibrate --compare); "
               "--where takes layer, operand and format",
       .brief = true},
      {.name = "advise",
       .group = output,
       .help = "the layers that another format or rule would help most (after hif8-calibrate "
               "--compare), and how to choose it",
       .brief = true},
      {.name = "columns",
       .kind = OptionKind::kText,
       .group = output,
       .value = "LIST",
       .help = "columns of the table, separated by commas; --list columns names them",
       .brief = true},
      {.name = "recipe",
       .kind = OptionKind::kText,
       .group = OptionGroup::kRun,
       .value = "NAME|FILE",
       .help = "inspect: the recipe to plan with, as for hif8-calibrate",
       .default_text = "inference"},
      {.name = "architecture",
       .kind = OptionKind::kPath,
       .group = OptionGroup::kRun,
       .value = "FILE",
       .help = "inspect: description of a checkpoint's network, as for hif8-calibrate",
       .environment = false},
      {.name = "fail-if",
       .kind = OptionKind::kText,
       .group = OptionGroup::kRun,
       .value = "GATE",
       .help = "exit with code 1 if this holds anywhere, such as 'output_sqnr<20'; --list metrics "
               "names the metrics",
       .repeatable = true,
       .brief = true},
      {.name = "list",
       .kind = OptionKind::kChoice,
       .group = OptionGroup::kRun,
       .value = "WHAT",
       .help = "print the names that other options know",
       .choices = {"columns", "metrics", "forms"},
       .environment = false},
  };
}

cli::ProgramSpec Spec() {
  cli::ProgramSpec spec;
  spec.name = "hif8-report";
  spec.summary = "Shows what quantization did to every layer, and decides whether it may ship";
  spec.usage = "[OPTIONS] OUT [OTHER]";
  spec.options = Options();
  for (OptionSpec& option : cli::CommonOptions({})) spec.options.push_back(std::move(option));
  spec.examples = {
      {"The ten worst layers", "hif8-report out/ --top 10"},
      {"A gate for a CI job, with a file for its test report",
       "hif8-report out/ --fail-if 'output_sqnr<20' --to junit -o quant.xml"},
      {"An original and a quantized model by their files alone, whoever wrote them",
       "hif8-report Qwen3-8B/ Qwen3-8B-HiF8/ --fail-if 'weight_sqnr<25' --fail-if 'unmatched>0'"},
      {"What is in a model, and what a recipe would do with it",
       "hif8-report inspect model.onnx --recipe cast"},
      {"Two runs: what became worse",
       "hif8-report out/ baseline/ --fail-if 'regression(output_sqnr)>1'"},
      {"A table for the summary of a job", "hif8-report out/ --to markdown >> summary.md"},
      {"Charts and tables for a browser", "hif8-report out/ --to html -o report.html"},
      {"Convolutions that lost small values, largest share first",
       "hif8-report out/ --where op=Conv --sort weight_zeroed_rate:desc"},
  };
  return spec;
}

bool PrintList(const cli::ParsedOptions& options, cli::Console& console) {
  if (!options.Has("list")) return false;
  std::vector<std::pair<std::string, std::string>> rows;
  const std::string what = options.Text("list");
  if (what == "columns") {
    for (const Column& column : LayerColumns()) rows.emplace_back(column.name, column.help);
  } else if (what == "metrics") {
    for (const Metric& metric : Metrics()) rows.emplace_back(metric.name, metric.help);
  } else {
    for (const std::string& name : ReportWriters().names()) {
      rows.emplace_back(name, ReportWriters().Get(name).description());
    }
  }
  console.PrintNames(rows);
  return true;
}

WriteOptions MakeWriteOptions(const cli::ParsedOptions& options, const cli::Console& console) {
  WriteOptions write;
  for (const std::string& text : options.Texts("where")) {
    write.selection.where.emplace_back(text);
  }
  if (options.Has("sort")) {
    ParseSort(options.Text("sort"), &write.selection);
    write.sorted = true;
  }
  write.selection.top = static_cast<size_t>(options.Count("top").value_or(0));
  if (options.Has("columns")) write.columns = ParseColumns(options.Text("columns"));
  if (!options.Has("output")) {
    write.color = console.stdout_color();
    write.width = console.stdout_width();
  }
  write.unicode = console.unicode();
  return write;
}

// With --json the report, the gates and what went wrong are one document.
std::string JsonDocument(const std::string& report, const std::vector<GateResult>& gates,
                         const Error* error) {
  Json root = Json::parse(report);
  root["gates"] = Json::array();
  for (const GateResult& gate : gates) {
    root["gates"].push_back({{"gate", gate.gate.text},
                             {"passed", gate.Passed()},
                             {"failures", gate.failures},
                             {"compared", gate.items.size()},
                             {"message", gate.Message()}});
  }
  if (error != nullptr) root["error"] = Json::parse(cli::ErrorJson(*error))["error"];
  return CleanJson(root.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

std::unique_ptr<Error> GateError(const std::vector<GateResult>& gates) {
  try {
    RequireGates(gates);
    return nullptr;
  } catch (const Error& error) {
    return std::make_unique<Error>(error);
  }
}

Report ReadOrMakeReport(ReportTask task, const cli::ParsedOptions& options, cli::Console& console) {
  if (task != ReportTask::kTwoModels) return ReadReport(options.Text("OUT"));
  Report report = ReportOfPair(options.Text("OUT"), options.Text("OTHER"), console.log());
  report.run.command = options.command();
  return report;
}

void Run(const cli::ParsedOptions& options, cli::Console& console) {
  if (console.json() && options.Has("to") && options.Text("to") != "json") {
    throw UsageError("--json and --to " + options.Text("to") + " ask for two forms",
                     "give one of them");
  }
  const ReportTask task = TaskOf(options);
  if (task == ReportTask::kInspect) {
    if (!options.Has("OTHER")) {
      throw UsageError("inspect needs a model", "hif8-report inspect MODEL_OR_FOLDER");
    }
    return Inspect(options, console);
  }
  if (options.Has("architecture")) {
    throw UsageError("--architecture is for inspect: reports and pairs of files need no network",
                     "leave it out");
  }
  if (options.Flag("advise")) {
    const auto top = static_cast<size_t>(options.Count("top").value_or(kUsualAdvice));
    const std::vector<Advice> advice =
        Advise(ReadReport(options.Text("OUT")), BuiltinFormats(), top);
    console.Print(console.json() ? AdviceJson(advice) : AdviceText(advice));
    return;
  }
  if (options.Flag("compare")) {
    if (options.Has("OTHER")) {
      throw UsageError("--compare shows the formats of one report, found a second one",
                       "give one report, or leave --compare out to compare the two");
    }
    console.Print(FormatTable(ReadReport(options.Text("OUT")), options.Texts("where")));
    return;
  }
  WriteOptions write = MakeWriteOptions(options, console);
  const bool two = task == ReportTask::kTwoRuns;
  std::vector<Gate> gates;
  for (const std::string& text : options.Texts("fail-if")) gates.push_back(ParseGate(text, two));
  const Report report = ReadOrMakeReport(task, options, console);
  const Report baseline = two ? ReadReport(options.Text("OTHER")) : Report();
  for (const Gate& gate : gates) write.gates.push_back(EvaluateGate(gate, report, &baseline));

  const std::string form = console.json() ? "json" : options.Text("to", "text");
  const ReportWriter& writer = ReportWriters().Get(form);
  std::string text =
      two ? writer.WriteComparison(
                CompareRuns(report, options.Text("OUT"), baseline, options.Text("OTHER")), write)
          : writer.Write(report, write);
  const std::unique_ptr<Error> error = GateError(write.gates);
  if (console.json()) text = JsonDocument(text, write.gates, error.get());
  if (options.Has("output")) {
    WriteFileAtomically(options.Text("output"), text);
  } else {
    console.Print(text);
  }
  if (error) {
    if (console.json() && !options.Has("output")) console.MarkErrorPrinted();
    throw *error;
  }
}

}  // namespace

cli::Program ReportProgram() { return {Spec(), Run, nullptr, PrintList}; }

}  // namespace hif8
