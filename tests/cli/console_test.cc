// Messages and progress.
#include "apps/common/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <thread>

namespace hif8::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

template <typename F>
std::string Stderr(const ConsoleLog::Settings& settings, F run) {
  CaptureStderr();
  {
    ConsoleLog log(settings);
    run(log);
  }
  return GetCapturedStderr();
}

void SayAll(ConsoleLog& log) {
  log.Debug("detail");
  log.Info("news");
  log.Warn("careful");
}

TEST(ConsoleLog, Levels) {
  EXPECT_EQ(Stderr({}, SayAll), "news\nwarning: careful\n");
  EXPECT_EQ(Stderr({.verbose = true}, SayAll), "detail\nnews\nwarning: careful\n");
  EXPECT_EQ(Stderr({.quiet = true}, SayAll), "");
  EXPECT_EQ(Stderr({.quiet = true, .verbose = true}, SayAll), "");
  EXPECT_EQ(Stderr({.color = true}, SayAll), "news\n\033[1;33mwarning: \033[0mcareful\n");
}

TEST(ConsoleLog, TheFileHasEverythingWithTimes) {
  const std::string path = ::testing::TempDir() + "console_test.log";
  EXPECT_EQ(Stderr({.quiet = true, .log_file = path},
                   [](ConsoleLog& log) {
                     SayAll(log);
                     log.RecordError("it {broke}");
                   }),
            "");
  std::ifstream in(path);
  const std::regex shape(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} (debug|info|warning|error) .*)");
  std::vector<std::string> ends;
  for (std::string line; std::getline(in, line);) {
    EXPECT_TRUE(std::regex_match(line, shape)) << line;
    ends.push_back(line.substr(24));
  }
  EXPECT_THAT(ends, ::testing::ElementsAre("debug detail", "info news", "warning careful",
                                           "error it {broke}"));
}

TEST(ConsoleLog, ALogFileThatCannotBeWritten) {
  try {
    ConsoleLog log({.log_file = "/proc/no.log"});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kEnvironment);
    EXPECT_EQ(error.where(), "/proc/no.log");
  }
}

TEST(ConsoleLog, OffATerminalALineForEveryTenPercent) {
  const std::string text = Stderr({}, [](ConsoleLog& log) {
    for (uint64_t i = 0; i <= 40; ++i) log.Progress("collect", i, 40);
    log.Progress("write", 1, 2);
    log.Progress("write", 2, 2);
  });
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 12u);
  EXPECT_EQ(lines[0], "collect: 10 % (4 of 40)");
  EXPECT_EQ(lines[9], "collect: 100 % (40 of 40)");
  EXPECT_EQ(lines[10], "write: 50 % (1 of 2)");
  EXPECT_EQ(lines[11], "write: 100 % (2 of 2)");
}

TEST(ConsoleLog, NoProgressWhenQuiet) {
  for (const bool terminal : {false, true}) {
    EXPECT_EQ(Stderr({.quiet = true, .terminal = terminal},
                     [](ConsoleLog& log) {
                       for (uint64_t i = 0; i <= 40; ++i) log.Progress("collect", i, 40);
                     }),
              "");
  }
}

TEST(ConsoleLog, OnATerminalOneLineAfterTwoSecondsThatVanishes) {
  const auto start = std::chrono::steady_clock::now();
  const std::string text = Stderr({.terminal = true}, [&](ConsoleLog& log) {
    uint64_t i = 0;
    while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(2600)) {
      log.Progress("collect", i++, 100000);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    log.Warn("look");
    log.Progress("collect", 100000, 100000);
  });
  EXPECT_TRUE(std::regex_search(
      text, std::regex("^\r\033\\[Kcollect: 0 % \\(\\d+ of 100000\\), \\d+:\\d\\d(:\\d\\d)? left")))
      << text;
  EXPECT_THAT(text, HasSubstr("\r\033[Kwarning: look\n"));
  EXPECT_THAT(text, ::testing::EndsWith("warning: look\n"));
  // Ten times a second at most.
  EXPECT_LE(std::count(text.begin(), text.end(), '\r'), 9);
}

TEST(ConsoleLog, DurationsForPeople) {
  EXPECT_EQ(DurationText(0), "0:00");
  EXPECT_EQ(DurationText(4.2), "0:05");
  EXPECT_EQ(DurationText(65), "1:05");
  EXPECT_EQ(DurationText(7380), "2:03:00");
}

TEST(ErrorJson, CarriesEverything) {
  Error error(ErrorCode::kModel, "bad \"name\" \xff", "fix it", "m.onnx");
  error.Add(UsageError("second", "", "r.yaml:1:2"));
  const auto j = nlohmann::json::parse(ErrorJson(error));
  EXPECT_EQ(j["error"]["exit_code"], 3);
  EXPECT_EQ(j["error"]["message"], "bad \"name\" \xEF\xBF\xBD");
  EXPECT_EQ(j["error"]["hint"], "fix it");
  EXPECT_EQ(j["error"]["where"], "m.onnx");
  EXPECT_EQ(j["error"]["others"][0]["where"], "r.yaml:1:2");
  EXPECT_EQ(j["error"]["others"][0]["exit_code"], 2);
}

}  // namespace
}  // namespace hif8::cli
