#include "apps/common/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "lib/report/text_util.h"

namespace hif8::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string Environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

bool WantsColor(const std::string& setting, int stream) {
  if (setting != "auto") return setting == "always";
  if (!Environment("NO_COLOR").empty()) return false;
  return ::isatty(stream) == 1 && Environment("TERM") != "dumb";
}

// COLUMNS lets a person and a test choose; else the terminal is asked.
size_t TerminalWidth() {
  const std::string columns = Environment("COLUMNS");
  if (!columns.empty()) {
    const long width = std::strtol(columns.c_str(), nullptr, 10);
    if (width > 0 && width < 10000) return static_cast<size_t>(width);
  }
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 1 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    return size.ws_col;
  }
  return 0;
}

bool Utf8Locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = Environment(name);
    if (locale.empty()) continue;
    return locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

Json OneErrorJson(const Error& error) {
  return {{"exit_code", static_cast<int>(error.code())},
          {"message", error.message()},
          {"hint", error.hint()},
          {"where", error.where()}};
}

std::string ErrorText(const Error& error, bool color) {
  std::string text = color ? "\033[1;31merror:\033[0m " : "error: ";
  if (!error.where().empty()) text += CleanLines(error.where()) + ": ";
  text += CleanLines(error.message()) + "\n";
  if (!error.hint().empty()) text += "  hint: " + CleanLines(error.hint()) + "\n";
  return text;
}

}  // namespace

std::string ErrorJson(const Error& error) {
  Json json = OneErrorJson(error);
  json["others"] = Json::array();
  for (const Error& other : error.others()) json["others"].push_back(OneErrorJson(other));
  const Json root = {{"error", json}};
  return CleanJson(root.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

Console::Console(const ParsedOptions& options)
    : json_(options.Flag("json")), unicode_(Utf8Locale()), width_(TerminalWidth()) {
  const std::string color = options.Text("color", "auto");
  stdout_color_ = WantsColor(color, STDOUT_FILENO);
  stderr_color_ = WantsColor(color, STDERR_FILENO);
  ConsoleLog::Settings settings;
  settings.quiet = options.Flag("quiet");
  settings.verbose = options.Flag("verbose");
  settings.terminal = ::isatty(STDERR_FILENO) == 1;
  settings.color = stderr_color_;
  settings.log_file = options.Text("log-file");
  log_ = std::make_unique<ConsoleLog>(settings);
}

void Console::Print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EPIPE) {
      return;  // the reader has seen enough
    } else if (errno != EINTR) {
      throw EnvironmentError(
          "cannot write to standard output: " + std::string(std::strerror(errno)),
          errno == ENOSPC ? "free some space" : "send the output to a file or a terminal");
    }
  }
}

void Console::PrintNames(const std::vector<std::pair<std::string, std::string>>& rows) {
  size_t width = 0;
  for (const auto& [name, help] : rows) width = std::max(width, name.size() + 2);
  std::string text;
  Json json = Json::array();
  for (const auto& [name, help] : rows) {
    text += name + std::string(width - name.size(), ' ') + help + "\n";
    json.push_back({{"name", name}, {"help", help}});
  }
  Print(json_ ? json.dump(2) + "\n" : text);
}

void Console::PrintError(const Error& error, const std::string& program) {
  log_->RecordError(error.message());
  if (error_printed_) return;
  if (json_) return Print(ErrorJson(error));
  std::string text = ErrorText(error, stderr_color_);
  for (const Error& other : error.others()) text += ErrorText(other, stderr_color_);
  if (error.code() == ErrorCode::kUsage) text += "See '" + program + " -h' for help.\n";
  if (error.code() == ErrorCode::kBug) text += "This is a bug in " + program + ".\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace hif8::cli
