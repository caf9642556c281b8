// Help, completion scripts, manual page and documentation from the option table.
#pragma once

#include <string>

#include "apps/common/option_table.h"

namespace hif8::cli {

// -h: usage, the most used options, two examples; one screen.
std::string ShortHelp(const ProgramSpec& spec);
// --help: every option by group, all examples, environment, exit codes.
std::string FullHelp(const ProgramSpec& spec);

// completion-bash, completion-zsh, completion-fish, man, markdown. Empty for any other kind.
std::string Generate(const ProgramSpec& spec, const std::string& kind, const std::string& version);

// Returns "-o, --output FILE".
std::string OptionSynopsis(const OptionSpec& option);
// Returns the help with choices, default and environment variable.
std::string OptionHelp(const OptionSpec& option);

struct ExitCode {
  int code;
  const char* meaning;
};
inline constexpr ExitCode kExitCodes[] = {
    {0, "done"},
    {1, "ran, but a requested gate failed"},
    {2, "wrong usage or configuration"},
    {3, "model or data unreadable or unsupported"},
    {4, "the environment failed: input or output, disk full, memory, ONNX Runtime missing"},
    {70, "a bug"},
    {130, "interrupted"}};

}  // namespace hif8::cli
