#include "apps/common/help.h"

#include <algorithm>

namespace hif8::cli {
namespace {

constexpr size_t kHelpColumn = 30;
constexpr size_t kWidth = 100;

// Words of `text` in lines, each but the first behind `indent` spaces.
std::string Wrapped(const std::string& text, size_t column, size_t indent) {
  std::string out;
  size_t start = 0;
  while (start < text.size()) {
    const size_t space = std::min(text.find(' ', start), text.size());
    const std::string word = text.substr(start, space - start);
    if (column > indent && column + word.size() + 1 > kWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    start = space + 1;
  }
  return out;
}

std::string OptionLine(const OptionSpec& option, bool full) {
  std::string line = "  " + OptionSynopsis(option);
  const std::string help = full ? OptionHelp(option) : option.help;
  if (line.size() + 2 > kHelpColumn) {
    line += "\n" + std::string(kHelpColumn, ' ');
  } else {
    line.resize(kHelpColumn, ' ');
  }
  return line + Wrapped(help, kHelpColumn, kHelpColumn) + "\n";
}

std::string OptionsText(const ProgramSpec& spec, bool full) {
  std::string text;
  for (const OptionGroup group : kOptionGroups) {
    std::string lines;
    for (const OptionSpec& option : spec.options) {
      if (option.group == group && (full || option.brief)) lines += OptionLine(option, full);
    }
    if (lines.empty()) continue;
    text += full ? "\n" + std::string(GroupTitle(group)) + ":\n" + lines : lines;
  }
  return text;
}

std::string Head(const ProgramSpec& spec) {
  return "Usage: " + spec.name + " " + spec.usage + "\n" + spec.summary + "\n";
}

}  // namespace

std::string OptionSynopsis(const OptionSpec& option) {
  if (option.kind == OptionKind::kPositional) return option.name;
  std::string text = option.letter != 0 ? std::string("-") + option.letter : "    ";
  // -h has no long name of its own: --help says more.
  if (option.name == "short-help") return text;
  text += (option.letter != 0 ? ", " : "") + option.Flag();
  return option.value.empty() ? text : text + " " + option.value;
}

std::string OptionHelp(const OptionSpec& option) {
  std::string text = option.help;
  if (!option.choices.empty()) {
    std::string choices;
    for (const std::string& choice : option.choices) {
      choices += (choices.empty() ? "" : ", ") + choice;
    }
    text += ": " + choices;
  }
  if (!option.default_text.empty()) text += " (default: " + option.default_text + ")";
  if (option.repeatable) text += "; may be given several times";
  return text;
}

std::string ShortHelp(const ProgramSpec& spec) {
  std::string text = Head(spec) + "\n" + OptionsText(spec, false) + "\nExamples:\n";
  for (size_t i = 0; i < std::min<size_t>(2, spec.examples.size()); ++i) {
    text += "  " + spec.examples[i].command + "\n";
  }
  return text;
}

std::string FullHelp(const ProgramSpec& spec) {
  std::string text = Head(spec) + OptionsText(spec, true) + "\nExamples:\n";
  for (const Example& example : spec.examples) {
    text += "  # " + example.what + "\n  " + example.command + "\n";
  }
  text +=
      "\nEnvironment:\n  Every option of the first four groups, --json, --quiet, --verbose, "
      "--color "
      "and --log-file can\n  be given as HIF8_ and its name, such as HIF8_LOG_FILE; a flag is "
      "stronger. NO_COLOR is obeyed.\n\nExit codes:\n";
  for (const ExitCode& code : kExitCodes) {
    text += "  " + std::to_string(code.code) +
            std::string(5 - std::to_string(code.code).size(), ' ') + code.meaning + "\n";
  }
  return text;
}

}  // namespace hif8::cli
