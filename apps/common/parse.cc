#include "apps/common/parse.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "lib/core/error.h"
#include "lib/core/memory.h"
#include "lib/core/suggest.h"

namespace hif8::cli {
namespace {

const std::vector<GivenValue> kNone;

template <typename T>
bool ParseWhole(const std::string& text, T* value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

constexpr const char* kShellSafe =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@%+";

bool ParseFlag(const std::string& text, bool* value) {
  *value = text == "true" || text == "1";
  return *value || text == "false" || text == "0" || text.empty();
}

void CheckValue(const OptionSpec& spec, const GivenValue& value) {
  int64_t count = 0;
  double number = 0;
  bool flag = false;
  const auto fail = [&](const std::string& expected, const std::string& hint) {
    throw UsageError(value.origin + ": expected " + expected + ", found '" + value.text + "'", hint,
                     "");
  };
  switch (spec.kind) {
    case OptionKind::kCount:
      if (!ParseWhole(value.text, &count) || count < 0) fail("an integer of at least 0", spec.help);
      break;
    case OptionKind::kNumber:
      if (!ParseWhole(value.text, &number) || !std::isfinite(number)) fail("a number", spec.help);
      break;
    case OptionKind::kSize:
      if (!ParseSize(value.text)) fail("a size such as 512M or 1.5G", spec.help);
      break;
    case OptionKind::kChoice:
      for (const std::string& choice : spec.choices) {
        if (choice == value.text) return;
      }
      fail("one of its values", SuggestionHint(value.text, spec.choices));
      break;
    case OptionKind::kFlag:
      if (!ParseFlag(value.text, &flag)) fail("true or false", spec.help);
      break;
    default:
      if (value.text.empty()) fail("a value", spec.help);
  }
}

std::string CliNames(const OptionSpec& spec) {
  if (spec.kind == OptionKind::kPositional) return spec.name;
  return (spec.letter != 0 ? std::string("-") + spec.letter + "," : "") + spec.Flag();
}

[[noreturn]] void RejectArgument(const ProgramSpec& spec, const std::string& text) {
  throw UsageError("unexpected argument '" + text + "'", "usage: " + spec.name + " " + spec.usage);
}

void AddPositional(const ProgramSpec& spec, const std::string& text, ParsedOptions& options) {
  for (const OptionSpec& option : spec.options) {
    if (option.kind != OptionKind::kPositional) continue;
    if (options.Has(option.name) && !option.repeatable) continue;
    const GivenValue value{text, option.name, false};
    CheckValue(option, value);
    return options.Add(option.name, value);
  }
  RejectArgument(spec, text);
}

// What CLI11 could not place: the first option among it, or else an argument too many.
void RejectExtras(const ProgramSpec& spec, const std::vector<std::string>& extras) {
  for (const std::string& extra : extras) {
    if (extra.size() < 2 || extra[0] != '-') continue;
    const std::string option = extra.substr(0, extra.find('='));
    std::vector<std::string> flags;
    for (const OptionSpec& known : spec.options) {
      if (known.kind != OptionKind::kPositional) flags.push_back(known.Flag());
    }
    const std::vector<std::string> near = NearMatches(option, flags, 1);
    throw UsageError("unknown option '" + option + "'",
                     near.empty() ? "see '" + spec.name + " -h' for the options"
                                  : "did you mean '" + near[0] + "'?");
  }
  if (!extras.empty()) RejectArgument(spec, extras[0]);
}

void ReadEnvironment(const ProgramSpec& spec, ParsedOptions& options) {
  for (const OptionSpec& option : spec.options) {
    const std::string name = option.EnvironmentName();
    if (name.empty() || options.Has(option.name)) continue;
    const char* text = std::getenv(name.c_str());
    if (text == nullptr || *text == '\0') continue;
    const GivenValue value{text, name, true};
    CheckValue(option, value);
    options.Add(option.name, value);
  }
}

}  // namespace

bool ParsedOptions::Flag(const std::string& name) const {
  bool on = false;
  return Has(name) && ParseFlag(All(name).back().text, &on) && on;
}

std::string ParsedOptions::Text(const std::string& name, const std::string& otherwise) const {
  return Has(name) ? All(name).back().text : otherwise;
}

std::optional<int64_t> ParsedOptions::Count(const std::string& name) const {
  int64_t count = 0;
  if (!Has(name) || !ParseWhole(Text(name), &count)) return std::nullopt;
  return count;
}

std::optional<double> ParsedOptions::Number(const std::string& name) const {
  double number = 0;
  if (!Has(name) || !ParseWhole(Text(name), &number)) return std::nullopt;
  return number;
}

std::optional<uint64_t> ParsedOptions::Size(const std::string& name) const {
  return ParseSize(Text(name));
}

const std::vector<GivenValue>& ParsedOptions::All(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? kNone : found->second;
}

std::vector<std::string> ParsedOptions::Texts(const std::string& name) const {
  std::vector<std::string> texts;
  for (const GivenValue& value : All(name)) texts.push_back(value.text);
  return texts;
}

// Quoted so that a shell would read the same arguments.
static std::string CommandText(const ProgramSpec& spec, int argc, const char* const* argv) {
  std::string command = spec.name;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool plain =
        !argument.empty() && argument.find_first_not_of(kShellSafe) == std::string::npos;
    std::string quoted;
    for (const char c : argument) quoted += c == '\'' ? "'\\''" : std::string(1, c);
    command += plain ? " " + argument : " '" + quoted + "'";
  }
  return command;
}

ParsedOptions ParseCommandLine(const ProgramSpec& spec, int argc, const char* const* argv) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::vector<std::pair<const OptionSpec*, CLI::Option*>> added;
  for (const OptionSpec& option : spec.options) {
    CLI::Option* cli = nullptr;
    if (option.kind == OptionKind::kFlag) {
      cli = app.add_flag(CliNames(option));
    } else {
      cli = app.add_option(CliNames(option));
      cli->type_size(1)->expected(option.repeatable ? -1 : 1)->type_name(option.value);
      // One value for each time the option is given.
      if (option.kind != OptionKind::kPositional) cli->allow_extra_args(false);
    }
    cli->multi_option_policy(option.repeatable ? CLI::MultiOptionPolicy::TakeAll
                                               : CLI::MultiOptionPolicy::TakeLast);
    added.emplace_back(&option, cli);
  }
  // What follows -- are positionals, whatever they look like.
  const char* const* const end = argv + argc;
  const char* const* const dashes =
      std::find_if(argv, end, [](const char* text) { return std::string_view(text) == "--"; });
  try {
    app.parse(static_cast<int>(dashes - argv), argv);
  } catch (const CLI::ArgumentMismatch& error) {  // "--output: 1 required FILE missing"
    const std::string text = error.what();
    const std::string flag = text.substr(0, text.find(':'));
    for (const OptionSpec& option : spec.options) {
      if (option.Flag() != flag) continue;
      throw UsageError(flag + " needs a value: " + option.value, option.help);
    }
    throw UsageError(text, "see '" + spec.name + " -h' for the options");
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what(), "see '" + spec.name + " -h' for the options");
  }
  RejectExtras(spec, app.remaining());
  ParsedOptions options;
  options.SetCommand(CommandText(spec, argc, argv));
  for (const auto& [option, cli] : added) {
    const bool positional = option->kind == OptionKind::kPositional;
    for (const std::string& text : cli->results()) {
      const GivenValue value{text, positional ? option->name : option->Flag(), false};
      CheckValue(*option, value);
      options.Add(option->name, value);
    }
  }
  for (const char* const* rest = dashes; rest < end; ++rest) {
    if (rest != dashes) AddPositional(spec, *rest, options);
  }
  ReadEnvironment(spec, options);
  return options;
}

void RequirePositionals(const ProgramSpec& spec, const ParsedOptions& options) {
  for (const OptionSpec& option : spec.options) {
    if (option.required && !options.Has(option.name)) {
      throw UsageError(option.name + " is missing: " + option.help,
                       "usage: " + spec.name + " " + spec.usage);
    }
  }
}

}  // namespace hif8::cli
