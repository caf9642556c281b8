#include "apps/hif8-report/task.h"

#include <filesystem>
#include <string>

namespace hif8 {
namespace {

// A report.json, or a folder with one.
bool HoldsReport(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code unreadable;  // whoever opens it says why
  if (fs::is_directory(path, unreadable)) return fs::exists(fs::path(path) / "report.json");
  return fs::path(path).extension() == ".json";
}

}  // namespace

ReportTask TaskOf(const cli::ParsedOptions& options) {
  const std::string first = options.Text("OUT");
  const std::string second = options.Text("OTHER");
  std::error_code unreadable;
  const bool folder = second.empty() && std::filesystem::exists(first, unreadable);
  if (first == "inspect" && !folder) return ReportTask::kInspect;
  if (second.empty()) return ReportTask::kOneRun;
  return HoldsReport(first) && HoldsReport(second) ? ReportTask::kTwoRuns : ReportTask::kTwoModels;
}

}  // namespace hif8
