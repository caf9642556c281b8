// The option table: parsing, environment, errors, help, exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <stdexcept>

#include "apps/common/help.h"
#include "apps/common/program.h"

namespace hif8::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

ProgramSpec Spec() {
  ProgramSpec spec;
  spec.name = "tool";
  spec.summary = "Does a thing";
  spec.usage = "[OPTIONS] MODEL";
  spec.options = {
      {.name = "MODEL",
       .kind = OptionKind::kPositional,
       .help = "the model",
       .required = true,
       .brief = true},
      {.name = "data",
       .letter = 'd',
       .kind = OptionKind::kPath,
       .value = "DIR",
       .help = "the data",
       .brief = true},
      {.name = "keep",
       .kind = OptionKind::kText,
       .value = "REGEX",
       .help = "layers",
       .repeatable = true},
      {.name = "samples", .kind = OptionKind::kCount, .value = "N", .help = "how many"},
      {.name = "ratio", .kind = OptionKind::kNumber, .value = "X", .help = "how much"},
      {.name = "rule",
       .kind = OptionKind::kChoice,
       .value = "RULE",
       .help = "which",
       .choices = {"max", "mse"}},
      {.name = "weight-scale", .kind = OptionKind::kText, .value = "RULE", .help = "weights"},
      {.name = "force", .letter = 'f', .kind = OptionKind::kFlag, .help = "do it"},
  };
  for (OptionSpec& option : CommonOptions({"recipe"})) spec.options.push_back(std::move(option));
  spec.examples = {{"One", "tool a"}, {"Two", "tool b"}, {"Three", "tool c"}};
  return spec;
}

ParsedOptions Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "tool");
  return ParseCommandLine(Spec(), static_cast<int>(arguments.size()), arguments.data());
}

std::string ParseError(const std::vector<const char*>& arguments) {
  try {
    RequirePositionals(Spec(), Parse(arguments));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.message() + " / " + error.hint();
  }
  return "";
}

TEST(Options, ValuesInEverySpelling) {
  const ParsedOptions o = Parse({"m.onnx", "-d", "a", "--keep", "x", "--keep=y", "--samples", "7",
                                 "--ratio=-1.5e-3", "-qf", "--rule", "mse"});
  EXPECT_EQ(o.Text("MODEL"), "m.onnx");
  EXPECT_EQ(o.Text("data"), "a");
  EXPECT_THAT(o.Texts("keep"), ElementsAre("x", "y"));
  EXPECT_EQ(o.Count("samples"), 7);
  EXPECT_EQ(o.Number("ratio"), -1.5e-3);
  EXPECT_TRUE(o.Flag("force") && o.Flag("quiet"));
  EXPECT_FALSE(o.Flag("verbose") || o.Has("weight-scale"));
  EXPECT_EQ(o.Text("weight-scale", "none"), "none");
  EXPECT_EQ(o.All("data").at(0).origin, "--data");
  EXPECT_FALSE(o.Count("ratio").has_value());
}

TEST(Options, OneValueEachTimeAndTheLastCounts) {
  const ParsedOptions o = Parse({"--keep", "x", "m.onnx", "-d", "a", "-d", "b"});
  EXPECT_THAT(o.Texts("keep"), ElementsAre("x"));
  EXPECT_EQ(o.Text("MODEL"), "m.onnx");
  EXPECT_EQ(o.Text("data"), "b");
}

TEST(Options, AfterTwoDashesComePositionals) {
  EXPECT_EQ(Parse({"--force", "--", "--data"}).Text("MODEL"), "--data");
  EXPECT_THAT(ParseError({"m", "--", "n"}), HasSubstr("unexpected argument 'n'"));
}

TEST(Options, Errors) {
  EXPECT_EQ(ParseError({"m", "--dtaa", "x"}), "unknown option '--dtaa' / did you mean '--data'?");
  EXPECT_EQ(ParseError({"m", "--kep=x"}), "unknown option '--kep' / did you mean '--keep'?");
  EXPECT_EQ(ParseError({"m", "-z"}), "unknown option '-z' / see 'tool -h' for the options");
  EXPECT_EQ(ParseError({"m", "n"}), "unexpected argument 'n' / usage: tool [OPTIONS] MODEL");
  EXPECT_EQ(ParseError({"m", "--data"}), "--data needs a value: DIR / the data");
  EXPECT_EQ(ParseError({"m", "-d"}), "--data needs a value: DIR / the data");
  EXPECT_THAT(ParseError({"m", "--samples", "1.5"}),
              HasSubstr("expected an integer of at least 0, found '1.5'"));
  EXPECT_THAT(ParseError({"m", "--samples", "99999999999999999999"}), HasSubstr("found '9999"));
  EXPECT_THAT(ParseError({"m", "--ratio", "nan"}), HasSubstr("expected a number, found 'nan'"));
  EXPECT_EQ(ParseError({"m", "--rule", "msd"}),
            "--rule: expected one of its values, found 'msd' / did you mean 'mse'?");
  EXPECT_THAT(ParseError({"m", "--data="}), HasSubstr("--data"));
  EXPECT_EQ(ParseError({}), "MODEL is missing: the model / usage: tool [OPTIONS] MODEL");
}

TEST(Options, TheEnvironmentIsWeakerThanAFlag) {
  ::setenv("HIF8_WEIGHT_SCALE", "mse", 1);
  ::setenv("HIF8_FORCE", "1", 1);
  ::setenv("HIF8_VERSION", "1", 1);
  ::setenv("HIF8_DATA", "", 1);
  ParsedOptions o = Parse({"m"});
  EXPECT_EQ(o.Text("weight-scale"), "mse");
  EXPECT_EQ(o.All("weight-scale").at(0).origin, "HIF8_WEIGHT_SCALE");
  EXPECT_TRUE(o.All("weight-scale").at(0).from_environment);
  EXPECT_TRUE(o.Flag("force"));
  EXPECT_FALSE(o.Flag("version") || o.Has("data"));
  o = Parse({"m", "--weight-scale", "max"});
  EXPECT_EQ(o.Text("weight-scale"), "max");
  EXPECT_FALSE(o.All("weight-scale").at(0).from_environment);
  ::setenv("HIF8_RULE", "mas", 1);
  EXPECT_THAT(ParseError({"m"}), HasSubstr("HIF8_RULE: expected one of its values, found 'mas'"));
  for (const char* name : {"WEIGHT_SCALE", "FORCE", "VERSION", "DATA", "RULE"}) {
    ::unsetenv((std::string("HIF8_") + name).c_str());
  }
}

struct Outcome {
  int code;
  std::string out, err;
};

template <typename F>
Outcome RunTool(std::vector<const char*> arguments, F body) {
  Program program;
  program.spec = Spec();
  program.run = body;
  program.generate = [](const std::string& kind) { return kind == "recipe" ? "the recipe\n" : ""; };
  arguments.insert(arguments.begin(), "tool");
  CaptureStdout();
  CaptureStderr();
  const int code = RunProgram(program, static_cast<int>(arguments.size()), arguments.data());
  return {code, GetCapturedStdout(), GetCapturedStderr()};
}

TEST(Program, ExitCodesAndStreams) {
  const auto ends = [](const std::function<void()>& body) {
    return RunTool({"m"}, [body](const ParsedOptions&, Console&) { body(); });
  };
  EXPECT_EQ(ends([] {}).code, 0);
  Outcome o = ends([] { throw ModelError("broken", "mend it", "m.onnx"); });
  EXPECT_EQ(o.code, 3);
  EXPECT_EQ(o.out, "");
  EXPECT_EQ(o.err, "error: m.onnx: broken\n  hint: mend it\n");
  EXPECT_EQ(ends([] { throw UsageError("wrong", ""); }).err,
            "error: wrong\nSee 'tool -h' for help.\n");
  EXPECT_EQ(ends([] { throw std::bad_alloc(); }).code, 4);
  o = ends([] { throw std::runtime_error("odd"); });
  EXPECT_EQ(o.code, 70);
  EXPECT_EQ(o.err,
            "error: odd\n  hint: report it with the command, the version (--version) and, if "
            "possible, the "
            "input\nThis is a bug in tool.\n");
  EXPECT_EQ(ends([] { throw Error(ErrorCode::kInterrupted, "stopped", ""); }).code, 130);
  EXPECT_EQ(ends([] { throw Error(ErrorCode::kGate, "failed", ""); }).code, 1);
}

TEST(Program, JsonErrorsGoToStdout) {
  const Outcome o = RunTool({"m", "--json"}, [](const ParsedOptions&, Console&) {
    throw EnvironmentError("disk full", "free some");
  });
  EXPECT_EQ(o.code, 4);
  EXPECT_EQ(o.err, "");
  EXPECT_THAT(o.out, HasSubstr("\"exit_code\": 4"));
  EXPECT_THAT(RunTool({"--json", "--bogus"}, [](const ParsedOptions&, Console&) {}).out,
              HasSubstr("unknown option"));
}

TEST(Program, AnswersNeedNoPositional) {
  const auto never = [](const ParsedOptions&, Console&) { FAIL(); };
  EXPECT_EQ(RunTool({"--version"}, never).out, "tool 1.2.3\n");
  EXPECT_EQ(RunTool({"--generate", "recipe"}, never).out, "the recipe\n");
  EXPECT_EQ(RunTool({"-h"}, never).out, ShortHelp(Spec()));
  const Outcome o = RunTool({"--help"}, never);
  EXPECT_EQ(o.code, 0);
  EXPECT_EQ(o.err, "");
  EXPECT_EQ(o.out, FullHelp(Spec()));
  for (const OptionSpec& option : Spec().options) {
    EXPECT_THAT(o.out, HasSubstr(option.name == "short-help" ? "-h" : option.name));
    EXPECT_THAT(o.out, HasSubstr(option.help.substr(0, 20)));
  }
}

}  // namespace
}  // namespace hif8::cli
