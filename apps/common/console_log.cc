#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <unistd.h>

#include <cmath>

#include "apps/common/console.h"
#include "lib/report/text_util.h"

namespace hif8::cli {
namespace {

constexpr auto kBeforeProgress = std::chrono::seconds(2);
constexpr auto kBetweenUpdates = std::chrono::milliseconds(100);

void WriteStderr(const std::string& text) {
  // Where even stderr fails there is nobody left to tell.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

std::string DurationText(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

ConsoleLog::ConsoleLog(const Settings& settings) : settings_(settings) {
  if (settings.log_file.empty()) return;
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(settings.log_file, true);
    file_ = std::make_shared<spdlog::logger>("log", sink);
    file_->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
    file_->set_level(spdlog::level::debug);
    file_->flush_on(spdlog::level::debug);
    // Said once, on stderr, also with --quiet: the file would be taken for the whole story.
    file_->set_error_handler([this](const std::string& reason) {
      if (log_failed_) return;
      log_failed_ = true;
      Print("warning: ", "\033[1;33m",
            settings_.log_file + ": cannot write the log file (" + reason +
                "); the run goes on without it");
    });
  } catch (const spdlog::spdlog_ex& error) {
    // What it says ends in "path: reason".
    const std::string text = error.what();
    const size_t colon = text.rfind(": ");
    throw EnvironmentError("cannot write the log file: " +
                               (colon == std::string::npos ? text : text.substr(colon + 2)),
                           "choose another --log-file", settings.log_file);
  }
}

ConsoleLog::~ConsoleLog() { ClearLine(); }

void ConsoleLog::Debug(std::string_view message) {
  const std::lock_guard lock(mutex_);
  if (file_) file_->debug("{}", message);
  if (settings_.verbose && !settings_.quiet) Print("", "", message);
}

void ConsoleLog::Info(std::string_view message) {
  const std::lock_guard lock(mutex_);
  if (file_) file_->info("{}", message);
  if (!settings_.quiet) Print("", "", message);
}

void ConsoleLog::Warn(std::string_view message) {
  const std::lock_guard lock(mutex_);
  if (file_) file_->warn("{}", message);
  if (!settings_.quiet) Print("warning: ", "\033[1;33m", message);
}

void ConsoleLog::RecordError(std::string_view message) {
  const std::lock_guard lock(mutex_);
  if (file_) file_->error("{}", message);
  ClearLine();
}

void ConsoleLog::Print(std::string_view label, const char* color, std::string_view message) {
  ClearLine();
  const bool colored = settings_.color && !label.empty();
  WriteStderr(fmt::format("{}{}{}{}\n", colored ? color : "", label, colored ? "\033[0m" : "",
                          CleanLines(message)));
}

void ConsoleLog::ClearLine() {
  if (line_shown_) WriteStderr("\r\033[K");
  line_shown_ = false;
}

void ConsoleLog::ShowLine(const std::string& line) {
  WriteStderr("\r\033[K" + line);
  line_shown_ = true;
}

void ConsoleLog::Progress(std::string_view stage, uint64_t done, uint64_t total) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (stage != stage_) {
    ClearLine();
    stage_ = stage;
    started_ = shown_ = now;
    tenths_ = 0;
  }
  if (!settings_.quiet) ShowProgress(done, total, now);
}

void ConsoleLog::ShowProgress(uint64_t done, uint64_t total, Clock::time_point now) {
  const std::chrono::duration<double> passed = now - started_;
  if (!settings_.terminal) {
    const uint64_t tenths = total > 0 ? done * 10 / total : 0;
    if (tenths > tenths_) {
      WriteStderr(fmt::format("{}: {} % ({} of {})\n", stage_, tenths * 10, done, total));
    }
    tenths_ = std::max(tenths, tenths_);
    return;
  }
  if (total > 0 && done >= total) return ClearLine();
  if (passed < kBeforeProgress || (line_shown_ && now - shown_ < kBetweenUpdates)) return;
  shown_ = now;
  if (total == 0) return ShowLine(fmt::format("{}: {}", stage_, done));
  const std::string left = done == 0 ? ""
                                     : ", " +
                                           DurationText(passed.count() / static_cast<double>(done) *
                                                        static_cast<double>(total - done)) +
                                           " left";
  ShowLine(fmt::format("{}: {} % ({} of {}){}", stage_, done * 100 / total, done, total, left));
}

}  // namespace hif8::cli
