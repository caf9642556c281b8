#include "apps/hif8-calibrate/merge_program.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/own_outputs.h"
#include "apps/hif8-calibrate/run_info.h"
#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/input_file.h"
#include "lib/core/mapped_file.h"
#include "lib/core/output_dir.h"
#include "lib/quant/merge_parts.h"
#include "lib/quant/stats_file.h"
#include "lib/report/report.h"
#include "lib/report/writer.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;
using cli::OptionGroup;
using cli::OptionKind;

cli::ProgramSpec MergeSpec() {
  cli::ProgramSpec spec;
  spec.name = std::string("hif8-calibrate ") + kMergeCommand;
  spec.summary = "Joins what --shards wrote part by part, or statistics of several machines";
  spec.usage = "PART... -o OUT";
  spec.options = {
      {.name = "PART",
       .kind = OptionKind::kPositional,
       .group = OptionGroup::kInput,
       .help =
           "the folders of all parts, in any order; or files of --stats-out, in the data's order",
       .repeatable = true,
       .required = true,
       .brief = true},
      {.name = "source",
       .kind = OptionKind::kPath,
       .group = OptionGroup::kInput,
       .value = "MODEL",
       .help = "the checkpoint that the parts were made from: compares every byte with what they "
               "read",
       .environment = false},
      {.name = "output",
       .letter = 'o',
       .kind = OptionKind::kPath,
       .group = OptionGroup::kOutput,
       .value = "OUT",
       .help = "folder for the whole model, or file for the statistics",
       .brief = true,
       .environment = false},
      {.name = "force",
       .group = OptionGroup::kOutput,
       .help = "replace an earlier result",
       .brief = true}};
  for (cli::OptionSpec& option : cli::CommonOptions({})) {
    // Completion and manual page are those of the program.
    if (option.name != "generate") spec.options.push_back(std::move(option));
  }
  spec.examples = {{"Three parts of a checkpoint", spec.name + " part1/ part2/ part3/ -o out/"},
                   {"Statistics of two machines", spec.name + " a.stats b.stats -o all.stats"}};
  return spec;
}

void MergeStatistics(const std::vector<fs::path>& files, const fs::path& output, bool force) {
  std::map<std::string, fs::path> seen;
  StatsFile all;
  for (const fs::path& file : files) {
    const std::string bytes = ReadFile(file);
    Hasher hasher;
    hasher.Update(bytes);
    const auto [same, added] = seen.emplace(hasher.Hex(), file);
    if (!added) {
      throw UsageError(
          "the same statistics are given twice: " + same->second.string() + " and " + file.string(),
          "give each file once");
    }
    StatsFile stats = ParseStats(bytes, file.string());
    if (seen.size() == 1) {
      all = std::move(stats);
    } else {
      all.Merge(std::move(stats), file.string());
    }
  }
  std::error_code ignored;
  if (!force && fs::exists(output, ignored)) {
    RemoveLeftover(output);
    throw UsageError("the output already exists", "give --force to replace it, or another -o",
                     output.string());
  }
  WriteStatsFile(output, all);
}

// Every part knows the whole plan and has measured the weights that it wrote.
Report MergeReports(const std::vector<Part>& parts, const MergedModel& merged) {
  Report all = ReadReport(parts.front().folder);
  for (size_t p = 1; p < parts.size(); ++p) {
    Report one = ReadReport(parts[p].folder);
    if (one.layers.size() != all.layers.size()) {
      throw UsageError("expected the report of the same model in every part, found another",
                       "quantize the parts again with the same options", parts[p].folder.string());
    }
    for (size_t i = 0; i < all.layers.size(); ++i) {
      if (one.layers[i].weight) all.layers[i].weight = std::move(one.layers[i].weight);
    }
    for (const auto& [stage, seconds] : one.run.durations) all.run.durations[stage] += seconds;
    for (std::string& warning : one.run.warnings) {
      const auto& known = all.run.warnings;
      if (std::find(known.begin(), known.end(), warning) == known.end()) {
        all.run.warnings.push_back(std::move(warning));
      }
    }
  }
  all.model.fingerprint = merged.hash;
  all.model.bytes_after = static_cast<int64_t>(merged.bytes);
  return all;
}

void Merge(const cli::ParsedOptions& options, cli::Console& console) {
  if (!options.Has("output")) throw UsageError("no output was given", "give -o OUT");
  const fs::path output = options.Text("output");
  const bool force = options.Flag("force");
  std::vector<fs::path> inputs;
  for (const std::string& text : options.Texts("PART")) inputs.emplace_back(text);
  const auto folders = static_cast<size_t>(std::count_if(
      inputs.begin(), inputs.end(), [](const fs::path& path) { return fs::is_directory(path); }));
  if (folders == 0 && options.Has("source")) {
    throw UsageError("--source is for the parts of a checkpoint, found statistics",
                     "leave --source out");
  }
  if (folders == 0) return MergeStatistics(inputs, output, force);
  if (folders < inputs.size()) {
    throw UsageError("expected folders of parts or statistics files, found both",
                     "merge them in two runs");
  }
  const std::vector<Part> parts = ReadParts(inputs);
  for (const fs::path& input : inputs) {
    if (cli::IsWithin(input, output)) {
      throw UsageError(
          "the output folder holds the part '" + input.string() + "', which it would replace",
          "choose another folder with -o", output.string());
    }
  }
  if (options.Has("source")) {
    CheckSource(parts, *Checkpoint::Open(options.Text("source"), StoredFormats()));
  } else if (!AreOfOneSource(parts)) {
    console.log().Warn(
        "each part knows the files of the others by samples only: give --source MODEL to compare "
        "every byte with the checkpoint that all must come from");
  }
  OutputDir out(output, force);
  Report report = MergeReports(parts, MergeParts(parts, out.path()));
  AddProgramInfo(options, &report.run);
  WriteFile(out.path() / "report.json", ReportToJson(report));
  MappedFile::CheckAll();
  out.Commit();
  WriteOptions write;
  write.color = console.stdout_color();
  write.width = console.stdout_width();
  write.unicode = console.unicode();
  console.Print(ReportWriters().Get(console.json() ? "json" : "text").Write(report, write));
}

}  // namespace

cli::Program MergeProgram() { return {MergeSpec(), Merge, nullptr, nullptr}; }

}  // namespace hif8
