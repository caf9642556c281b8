// The program's streams: the result on stdout, everything else on stderr.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/common/parse.h"
#include "lib/core/error.h"
#include "lib/core/log.h"

namespace spdlog {
class logger;
}

namespace hif8::cli {

// Messages and progress on stderr, and all of them with times in the log file.
// On a terminal progress is one line that appears after two seconds, with the time that is left;
// elsewhere one line per ten percent. Thread-safe.
class ConsoleLog : public LogSink {
 public:
  struct Settings {
    bool quiet = false;
    bool verbose = false;
    bool terminal = false;  // of stderr
    bool color = false;
    std::string log_file = {};
  };
  // Throws kEnvironment when the log file cannot be opened. One that cannot be written to any more
  // is named on stderr, once, and the run goes on without it.
  explicit ConsoleLog(const Settings& settings);
  ~ConsoleLog() override;

  void Debug(std::string_view message) override;
  void Info(std::string_view message) override;
  void Warn(std::string_view message) override;
  void Progress(std::string_view stage, uint64_t done, uint64_t total) override;
  // Notes an error that ends the program, for the log file alone.
  void RecordError(std::string_view message);

 private:
  using Clock = std::chrono::steady_clock;
  void Print(std::string_view label, const char* color, std::string_view message);
  void ClearLine();
  void ShowLine(const std::string& line);
  void ShowProgress(uint64_t done, uint64_t total, Clock::time_point now);

  Settings settings_;
  std::shared_ptr<spdlog::logger> file_;
  std::mutex mutex_;
  std::string stage_;
  Clock::time_point started_, shown_;
  uint64_t tenths_ = 0;
  bool line_shown_ = false;
  bool log_failed_ = false;
};

class Console {
 public:
  explicit Console(const ParsedOptions& options);

  LogSink& log() { return *log_; }
  bool json() const { return json_; }
  bool stdout_color() const { return stdout_color_; }
  bool unicode() const { return unicode_; }
  // Columns of the terminal on stdout; 0 when it is none.
  size_t stdout_width() const { return width_; }

  // Writes the result. A closed pipe is no error; anything else throws kEnvironment.
  void Print(std::string_view text);
  // Names and what they mean, one a line, or with --json as objects of "name" and "help".
  void PrintNames(const std::vector<std::pair<std::string, std::string>>& rows);
  // An error, with the others that came along: on stderr, or with --json as a document on stdout.
  void PrintError(const Error& error, const std::string& program);
  // The document on stdout holds the error already: a second one would not be one document.
  void MarkErrorPrinted() { error_printed_ = true; }

 private:
  bool error_printed_ = false;
  bool json_ = false;
  bool stdout_color_ = false;
  bool stderr_color_ = false;
  bool unicode_ = false;
  size_t width_ = 0;
  std::unique_ptr<ConsoleLog> log_;
};

// {"error": {"exit_code", "message", "hint", "where", "others": []}}
std::string ErrorJson(const Error& error);

// Returns "1:05", "2:03:00".
std::string DurationText(double seconds);

}  // namespace hif8::cli
