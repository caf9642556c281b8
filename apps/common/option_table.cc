#include "apps/common/option_table.h"

#include <cctype>

namespace hif8::cli {

const char* GroupTitle(OptionGroup group) {
  switch (group) {
    case OptionGroup::kInput:
      return "Input";
    case OptionGroup::kQuantization:
      return "Quantization";
    case OptionGroup::kOutput:
      return "Output";
    case OptionGroup::kRun:
      return "Run";
    case OptionGroup::kMessages:
      return "Messages";
  }
  return "";
}

std::string OptionSpec::EnvironmentName() const {
  if (!environment || kind == OptionKind::kPositional) return "";
  std::string text = "HIF8_";
  for (const char c : name) {
    text += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return text;
}

const OptionSpec* ProgramSpec::Find(const std::string& option) const {
  for (const OptionSpec& spec : options) {
    if (spec.name == option) return &spec;
  }
  return nullptr;
}

std::vector<OptionSpec> CommonOptions(const std::vector<std::string>& generators) {
  std::vector<std::string> kinds = {"completion-bash", "completion-zsh", "completion-fish", "man",
                                    "markdown"};
  kinds.insert(kinds.end(), generators.begin(), generators.end());
  const auto group = OptionGroup::kMessages;
  return {
      {.name = "json",
       .kind = OptionKind::kFlag,
       .group = group,
       .help = "one JSON document on stdout, errors too"},
      {.name = "quiet",
       .letter = 'q',
       .kind = OptionKind::kFlag,
       .group = group,
       .help = "errors only, no warnings and no progress"},
      {.name = "verbose",
       .letter = 'v',
       .kind = OptionKind::kFlag,
       .group = group,
       .help = "say more on stderr"},
      {.name = "color",
       .kind = OptionKind::kChoice,
       .group = group,
       .value = "WHEN",
       .help = "colour the output; without it NO_COLOR and the terminal decide",
       .choices = {"auto", "always", "never"},
       .default_text = "auto"},
      {.name = "log-file",
       .kind = OptionKind::kPath,
       .group = group,
       .value = "FILE",
       .help = "also write all messages there, with times"},
      {.name = "generate",
       .kind = OptionKind::kChoice,
       .group = group,
       .value = "WHAT",
       .help = "print a completion script, a manual page or documentation",
       .choices = kinds,
       .environment = false},
      {.name = "version",
       .kind = OptionKind::kFlag,
       .group = group,
       .help = "print the version",
       .environment = false},
      {.name = "short-help",
       .letter = 'h',
       .kind = OptionKind::kFlag,
       .group = group,
       .help = "the most used options and two examples",
       .brief = true,
       .environment = false},
      {.name = "help",
       .kind = OptionKind::kFlag,
       .group = group,
       .help = "all options",
       .brief = true,
       .environment = false},
  };
}

}  // namespace hif8::cli
