#include "apps/hif8-calibrate/job.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/own_outputs.h"
#include "apps/hif8-calibrate/auto_goal.h"
#include "apps/hif8-calibrate/calibrate_options.h"
#include "apps/hif8-calibrate/compare_list.h"
#include "apps/hif8-calibrate/make_report.h"
#include "apps/hif8-calibrate/model_kind.h"
#include "apps/hif8-calibrate/plan_text.h"
#include "apps/hif8-calibrate/run_info.h"
#include "apps/hif8-calibrate/study_report.h"
#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/core/memory.h"
#include "lib/core/output_dir.h"
#include "lib/core/parallel.h"
#include "lib/quant/config_use.h"
#include "lib/quant/pipeline.h"
#include "lib/report/format_table.h"
#include "lib/report/gate.h"
#include "lib/report/writer.h"
#include "lib/runtime/captured_source.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;

// The output replaces a whole folder: nothing that the run reads may lie in it.
void RefuseInputsWithin(const fs::path& output, const cli::ParsedOptions& options) {
  std::vector<std::string> inputs = {options.Text("MODEL"), options.Text("data"),
                                     options.Text("eval-data"), options.Text("activations"),
                                     options.Text("calibration")};
  for (const std::string& path : options.Texts("stats-in")) inputs.push_back(path);
  std::error_code ignored;
  if (fs::exists(options.Text("recipe"), ignored)) inputs.push_back(options.Text("recipe"));
  for (const std::string& input : inputs) {
    if (input.empty() || !fs::exists(input, ignored)) continue;
    // calibration.yaml and recipe.yaml of an earlier result are read before it is replaced.
    const bool read_first = input == options.Text("calibration") || input == options.Text("recipe");
    if (read_first || !cli::IsWithin(input, output)) continue;
    throw UsageError("the output folder holds the input '" + input + "', which it would replace",
                     "choose another folder with -o", output.string());
  }
}

// Every file of a checkpoint's folder is part of it, and copied to the output.
void RefuseOutputsWithin(const fs::path& model, const cli::ParsedOptions& options) {
  std::error_code unreadable;  // the reader says why
  if (!fs::is_directory(model, unreadable)) return;
  for (const char* const written : {"output", "stats-out", "log-file"}) {
    for (const cli::GivenValue& target : options.All(written)) {
      if (!cli::IsWithin(target.text, model)) continue;
      throw UsageError(target.origin + " lies in the model's folder, whose files are all copied",
                       "choose a place outside of '" + model.string() + "'", target.text);
    }
  }
}

PipelineOptions MakePipelineOptions(const cli::ParsedOptions& options,
                                    const ParseContext& context) {
  PipelineOptions pipeline;
  if (!options.Has("output") && !(options.Has("stats-out") && options.Has("data"))) {
    throw UsageError("no output was given", "give -o DIR, or --dry-run to see the plan only");
  }
  pipeline.output = options.Text("output");
  pipeline.force = options.Flag("force");
  pipeline.simulated = options.Text("export") == "simulated";
  pipeline.inlined = options.Text("export") == "inlined";
  for (const std::string& path : options.Texts("stats-in")) pipeline.stats_in.emplace_back(path);
  pipeline.stats_out = options.Text("stats-out");
  pipeline.calibration = options.Text("calibration");
  if (!pipeline.calibration.empty() && !pipeline.stats_in.empty()) {
    throw UsageError("--calibration and --stats-in both give the scales", "give one of them");
  }
  if (!pipeline.calibration.empty() && !pipeline.stats_out.empty()) {
    throw UsageError("with --calibration no statistics are gathered that --stats-out could save",
                     "give one of them");
  }
  if (options.Has("compare")) {
    pipeline.compare = ParseCompareList(options.Text("compare"), context);
  }
  pipeline.delayed_study = options.Flag("delayed-study");
  if (options.Has("auto")) pipeline.auto_goal = MakeAutoGoal(options.Text("auto"));
  if (!pipeline.output.empty()) RefuseInputsWithin(pipeline.output, options);
  RefuseOutputsWithin(options.Text("MODEL"), options);
  return pipeline;
}

// Something that activation scales can come from was given.
bool HasScales(const cli::ParsedOptions& options) {
  return options.Has("data") || options.Has("activations") || options.Has("stats-in") ||
         options.Has("calibration");
}

// "--shards 3/16"
std::optional<CheckpointPart> ParsePart(const cli::ParsedOptions& options) {
  if (!options.Has("shards")) return std::nullopt;
  const std::string text = options.Text("shards");
  CheckpointPart part{0, 0};
  const char* const end = text.data() + text.size();
  const auto [slash, error] = std::from_chars(text.data(), end, part.number);
  const bool divided = error == std::errc() && slash != end && *slash == '/';
  const char* rest = divided ? std::from_chars(slash + 1, end, part.count).ptr : nullptr;
  if (rest != end || part.number < 1 || part.number > part.count || part.count > 1'000'000) {
    throw UsageError(
        "--shards: expected K/N with K from 1 to N, such as 3/16, found '" + text + "'",
        "give every part's run the same N and another K");
  }
  for (const char* whole : {"data", "eval-data", "activations", "stats-out", "compare"}) {
    if (!options.Has(whole)) continue;
    throw UsageError("--shards quantizes the weights of some files; --" + std::string(whole) +
                         " concerns the whole model",
                     "gather scales in a run of its own and give them to every part with "
                     "--calibration or --stats-in");
  }
  return part;
}

// What gives statistics and errors; null when nothing was given. `samples` 0: all.
std::unique_ptr<ActivationSource> MakeSource(const cli::ParsedOptions& options,
                                             const ModelKind& kind, size_t samples, LogSink& log) {
  const std::string data = options.Text("data");
  const std::string evaluation = options.Text("eval-data");
  if (!options.Has("activations")) return kind.OpenData(data, evaluation, log);
  if (!data.empty() || !evaluation.empty()) {
    throw UsageError(
        "--activations replaces a run of the model, so that --data and --eval-data "
        "have nothing to feed",
        "give one or the other");
  }
  return MakeCapturedSource(kind.model(), options.Text("activations"), samples, log);
}

// 0: one per processor.
int ThreadCount(const cli::ParsedOptions& options) {
  constexpr int64_t kMost = 1024;  // ONNX Runtime starts them all at once
  const int64_t threads = options.Count("threads").value_or(0);
  if (threads > kMost) {
    throw UsageError("--threads: expected at most " + std::to_string(kMost) + ", found " +
                         std::to_string(threads),
                     "leave it out: as many as there are processors");
  }
  return static_cast<int>(threads);
}

std::vector<Gate> ParseGates(const cli::ParsedOptions& options) {
  std::vector<Gate> gates;
  for (const std::string& text : options.Texts("fail-if")) gates.push_back(ParseGate(text));
  return gates;
}

std::string SummaryText(const Report& report, const std::vector<GateResult>& gates,
                        const cli::Console& console) {
  WriteOptions write;
  write.gates = gates;
  write.color = console.stdout_color();
  write.width = console.stdout_width();
  write.unicode = console.unicode();
  if (console.json()) return ReportWriters().Get("json").Write(report, write);
  const std::string text = ReportWriters().Get("text").Write(report, write);
  return report.comparisons.empty() ? text : text + "\n" + FormatTable(report, {});
}

// What a run says that only gathered statistics.
std::string StatisticsText(const PipelineResult& result, const fs::path& file,
                           const cli::Console& console) {
  if (console.json()) {
    return nlohmann::ordered_json{{"statistics", file.string()},
                                  {"samples", result.calibration_samples}}
               .dump(2) +
           "\n";
  }
  return "statistics of " + std::to_string(result.calibration_samples) +
         " samples: " + file.string() + "\n";
}

}  // namespace

void RunJob(const cli::ParsedOptions& options, cli::Console& console) {
  SetThreads(ThreadCount(options));
  SetMemoryLimit(options.Size("memory-limit").value_or(0));
  const ParseContext context{BuiltinFormats(), BuiltinCalibrators()};
  const RecipeAssignments assignments = MakeAssignments(options);
  const std::string recipe = options.Text("recipe", "inference");
  QuantConfig config = LoadConfig(recipe, assignments.weaker, assignments.stronger, context);
  const std::vector<Gate> gates = ParseGates(options);
  const bool dry_run = options.Flag("dry-run");
  const std::optional<CheckpointPart> part = ParsePart(options);
  PipelineOptions pipeline;
  if (dry_run && !gates.empty()) {
    throw UsageError("--fail-if needs a run: with --dry-run nothing is measured",
                     "give one of them");
  }
  if (!dry_run) pipeline = MakePipelineOptions(options, context);

  const std::unique_ptr<ModelKind> kind =
      OpenModel({options.Text("MODEL"), options.Text("architecture"), HasScales(options), part},
                &config, context, console.log());
  CheckUse(config, kind->model(), context, console.log());
  if (dry_run) {
    const QuantPlan plan = MakePlan(kind->model(), config, context);
    std::vector<std::string> notices = plan.notices;
    const bool simulated = options.Text("export") == "simulated";
    for (std::string& more : kind->MakeExporter()->Check(plan, simulated)) {
      notices.push_back(std::move(more));
    }
    for (const std::string& notice : notices) console.log().Warn(notice);
    console.Print(console.json() ? PlanJson(kind->model(), plan) : PlanText(kind->model(), plan));
    return;
  }

  const std::unique_ptr<ActivationSource> source =
      MakeSource(options, *kind, static_cast<size_t>(config.data.samples), console.log());
  const std::unique_ptr<Exporter> exporter = kind->MakeExporter();
  if (pipeline.inlined && !exporter->HasFunctions()) {
    throw UsageError("--export inlined: a checkpoint holds no functions that could be inlined",
                     "leave --export out; 'inlined' is for ONNX models");
  }
  const PipelineInputs inputs{kind->model(), config, context, *exporter, source.get()};
  if (pipeline.output.empty()) {
    const PipelineResult result = RunPipeline(inputs, pipeline, console.log(), {});
    return console.Print(StatisticsText(result, pipeline.stats_out, console));
  }
  Report report;
  RunPipeline(inputs, pipeline, console.log(),
              [&](const PipelineResult& result, const fs::path& dir) {
                report = MakeReport(kind->model(), result);
                report.recipe = {recipe, WriteRecipe(result.config)};
                report.delayed_study = MakeDelayedStudyReport(kind->model(), result);
                if (pipeline.auto_goal) {
                  report.automatic = MakeAutoReport(kind->model(), result, *pipeline.auto_goal);
                }
                AddRunInfo(options, result, &report);
                WriteFile(dir / "report.json", ReportToJson(report));
              });

  std::vector<GateResult> results;
  results.reserve(gates.size());
  for (const Gate& gate : gates) results.push_back(EvaluateGate(gate, report));
  console.Print(SummaryText(report, results, console));
  RequireGoal(report);
  RequireGates(results);
}

}  // namespace hif8
