// The frame of both programs: options, help, errors, exit codes.
#pragma once

#include <functional>
#include <string>

#include "apps/common/console.h"
#include "apps/common/option_table.h"
#include "apps/common/parse.h"

namespace hif8::cli {

struct Program {
  ProgramSpec spec;  // with CommonOptions()
  // Does the work; every error is thrown. The positionals that are required are there.
  std::function<void(const ParsedOptions&, Console&)> run;
  // Text for --generate beyond the common kinds; may be null.
  std::function<std::string(const std::string& kind)> generate;
  // Answers an option that ends the program before any positional is needed (--list): true when it
  // did. May be null.
  std::function<bool(const ParsedOptions&, Console&)> answer;
};

// Parses, answers -h, --help, --version and --generate, runs, prints errors. Returns the exit code.
int RunProgram(const Program& program, int argc, const char* const* argv);

}  // namespace hif8::cli
