// Completion scripts, manual page and Markdown.
#include <algorithm>

#include "apps/common/help.h"

namespace hif8::cli {
namespace {

std::string Join(const std::vector<std::string>& parts, const std::string& between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
}

// `text` with each character of `special` behind a backslash.
std::string Escaped(const std::string& text, std::string_view special) {
  std::string escaped;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string SingleQuoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

bool Named(const OptionSpec& option) { return option.kind != OptionKind::kPositional; }

// The spellings of an option: "-o", "--output".
std::vector<std::string> Spellings(const OptionSpec& option) {
  std::vector<std::string> all;
  if (option.letter != 0) all.push_back(std::string("-") + option.letter);
  if (option.name != "short-help") all.push_back(option.Flag());
  return all;
}

std::string FunctionName(const ProgramSpec& spec) {
  std::string name = "_" + spec.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string BashCompletion(const ProgramSpec& spec) {
  std::vector<std::string> words;
  std::string cases;
  for (const OptionSpec& option : spec.options) {
    if (!Named(option)) continue;
    const std::vector<std::string> spellings = Spellings(option);
    words.insert(words.end(), spellings.begin(), spellings.end());
    if (option.kind == OptionKind::kChoice) {
      cases += "    " + Join(spellings, "|") + ") COMPREPLY=($(compgen -W '" +
               Join(option.choices, " ") + "' -- \"$cur\")); return;;\n";
    } else if (option.kind == OptionKind::kPath) {
      cases +=
          "    " + Join(spellings, "|") + ") COMPREPLY=($(compgen -f -- \"$cur\")); return;;\n";
    } else if (option.kind != OptionKind::kFlag) {
      cases += "    " + Join(spellings, "|") + ") return;;\n";
    }
  }
  return "# bash completion for " + spec.name + "\n" + FunctionName(spec) +
         "() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  COMPREPLY=()\n"
         "  case $prev in\n" +
         cases +
         "  esac\n"
         "  if [[ $cur == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W '" +
         Join(words, " ") +
         "' -- \"$cur\"))\n"
         "  else\n"
         "    COMPREPLY=($(compgen -f -- \"$cur\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F " +
         FunctionName(spec) + " " + spec.name + "\n";
}

std::string ZshCompletion(const ProgramSpec& spec) {
  std::string arguments;
  for (const OptionSpec& option : spec.options) {
    if (!Named(option)) {
      arguments += " \\\n  " + SingleQuoted((option.repeatable ? "*:" : ":") +
                                            Escaped(option.name, ":[]\\") + ":_files");
      continue;
    }
    for (const std::string& spelling : Spellings(option)) {
      std::string line =
          (option.repeatable ? "*" : "") + spelling + "[" + Escaped(option.help, "[]\\:") + "]";
      if (option.kind == OptionKind::kChoice) {
        line += ":" + option.value + ":(" + Join(option.choices, " ") + ")";
      } else if (option.kind == OptionKind::kPath) {
        line += ":" + option.value + ":_files";
      } else if (option.kind != OptionKind::kFlag) {
        line += ":" + Escaped(option.value, ":[]\\") + ":";
      }
      arguments += " \\\n  " + SingleQuoted(line);
    }
  }
  return "#compdef " + spec.name + "\n_arguments" + arguments + "\n";
}

std::string FishCompletion(const ProgramSpec& spec) {
  std::string text = "# fish completion for " + spec.name + "\n";
  for (const OptionSpec& option : spec.options) {
    if (!Named(option)) continue;
    text += "complete -c " + spec.name;
    if (option.letter != 0) text += std::string(" -s ") + option.letter;
    if (option.name != "short-help") text += " -l " + option.name;
    if (option.kind == OptionKind::kChoice) {
      text += " -x -a '" + Join(option.choices, " ") + "'";
    } else if (option.kind == OptionKind::kPath) {
      text += " -r";
    } else if (option.kind != OptionKind::kFlag) {
      text += " -x";
    }
    text += " -d '" + Escaped(option.help, "'\\") + "'\n";
  }
  return text;
}

// Text for troff: dashes stay dashes, and a line does not start as a request.
std::string Roff(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      if ((c == '.' || c == '\'') && (escaped.empty() || escaped.back() == '\n')) escaped += "\\&";
      escaped += c;
    }
  }
  return escaped;
}

std::string ManPage(const ProgramSpec& spec, const std::string& version) {
  std::string upper = spec.name;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string text = ".TH " + upper + " 1 \"\" \"" + spec.name + " " + version +
                     "\" \"User Commands\"\n.SH NAME\n" + Roff(spec.name + " - " + spec.summary) +
                     "\n.SH SYNOPSIS\n.B " + Roff(spec.name) + "\n" + Roff(spec.usage) + "\n";
  for (const OptionGroup group : kOptionGroups) {
    std::string options;
    for (const OptionSpec& option : spec.options) {
      if (option.group != group) continue;
      std::string synopsis = OptionSynopsis(option);
      synopsis.erase(0, synopsis.find_first_not_of(' '));
      options += ".TP\n.B " + Roff(synopsis) + "\n" + Roff(OptionHelp(option)) + "\n";
      if (const std::string name = option.EnvironmentName(); !name.empty()) {
        options += "Environment: " + Roff(name) + ".\n";
      }
    }
    if (!options.empty()) text += ".SH " + std::string(GroupTitle(group)) + "\n" + options;
  }
  text += ".SH EXAMPLES\n";
  for (const Example& example : spec.examples) {
    text += ".PP\n" + Roff(example.what) + ":\n.PP\n.nf\n.RS\n" + Roff(example.command) +
            "\n.RE\n.fi\n";
  }
  text += ".SH EXIT STATUS\n";
  for (const ExitCode& code : kExitCodes) {
    text += ".TP\n.B " + std::to_string(code.code) + "\n" + Roff(code.meaning) + "\n";
  }
  return text;
}

std::string Markdown(const ProgramSpec& spec) {
  std::string text = "# " + spec.name + "\n\n" + spec.summary + ".\n\n```\n" + spec.name + " " +
                     spec.usage + "\n```\n";
  for (const OptionGroup group : kOptionGroups) {
    std::string rows;
    for (const OptionSpec& option : spec.options) {
      if (option.group != group) continue;
      std::string synopsis = OptionSynopsis(option);
      synopsis.erase(0, synopsis.find_first_not_of(' '));
      const std::string name = option.EnvironmentName();
      rows += "| `" + synopsis + "` | " + Escaped(OptionHelp(option), "|<>*_") + " | " +
              (name.empty() ? "" : "`" + name + "`") + " |\n";
    }
    if (rows.empty()) continue;
    text += "\n## " + std::string(GroupTitle(group)) +
            "\n\n| option | meaning | environment |\n|---|---|---|\n" + rows;
  }
  text += "\n## Examples\n";
  for (const Example& example : spec.examples) {
    text += "\n" + example.what + ":\n\n```\n" + example.command + "\n```\n";
  }
  text += "\n## Exit codes\n\n| code | meaning |\n|---|---|\n";
  for (const ExitCode& code : kExitCodes) {
    text += "| " + std::to_string(code.code) + " | " + code.meaning + " |\n";
  }
  return text;
}

}  // namespace

std::string Generate(const ProgramSpec& spec, const std::string& kind, const std::string& version) {
  if (kind == "completion-bash") return BashCompletion(spec);
  if (kind == "completion-zsh") return ZshCompletion(spec);
  if (kind == "completion-fish") return FishCompletion(spec);
  if (kind == "man") return ManPage(spec, version);
  if (kind == "markdown") return Markdown(spec);
  return "";
}

}  // namespace hif8::cli
