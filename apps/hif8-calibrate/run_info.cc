#include "apps/hif8-calibrate/run_info.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <ctime>
#include <string>

namespace hif8 {
namespace {

std::string UtcNow() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

void AddProgramInfo(const cli::ParsedOptions& options, RunReport* run) {
  run->version = HIF8_VERSION;
  run->command = options.command();
  run->host = HostName();
  run->time = UtcNow();
}

void AddRunInfo(const cli::ParsedOptions& options, const PipelineResult& result, Report* report) {
  RunReport& run = report->run;
  AddProgramInfo(options, &run);
  run.durations = result.seconds;
  run.synthetic = result.synthetic;
  run.warnings = result.warnings;
  for (const char* source : {"calibration", "stats-in", "activations", "data"}) {
    if (!options.Has(source)) continue;
    DataReport data;
    data.description = options.Text(source);
    data.samples = static_cast<int64_t>(result.calibration_samples);
    run.data = data;
    break;
  }
  if (result.measurement.samples > 0) {
    DataReport evaluation;
    evaluation.is_calibration_data = !options.Has("eval-data");
    const char* source = options.Has("activations") ? "activations" : "data";
    evaluation.description = options.Text(evaluation.is_calibration_data ? source : "eval-data");
    evaluation.samples = static_cast<int64_t>(result.measurement.samples);
    run.evaluation = evaluation;
  }
}

}  // namespace hif8
