// What a program's command line looks like, as data: parsing, help, completion, manual page and
// documentation all come from it.
#pragma once

#include <string>
#include <vector>

namespace hif8::cli {

enum class OptionKind {
  kFlag,
  kText,
  kPath,
  kCount,  // an integer of at least 0
  kNumber,
  kSize,       // of memory: "512M"
  kChoice,     // one of `choices`
  kPositional  // an argument without a name
};

// In the order of the help.
enum class OptionGroup { kInput, kQuantization, kOutput, kRun, kMessages };
inline constexpr OptionGroup kOptionGroups[] = {OptionGroup::kInput, OptionGroup::kQuantization,
                                                OptionGroup::kOutput, OptionGroup::kRun,
                                                OptionGroup::kMessages};
const char* GroupTitle(OptionGroup group);

struct OptionSpec {
  std::string name =
      {};           // "output", without dashes; of a positional what the usage line shows: "MODEL"
  char letter = 0;  // 'o' for -o; 0: none
  OptionKind kind = OptionKind::kFlag;
  OptionGroup group = OptionGroup::kRun;
  std::string value = {};  // placeholder of the value: "FILE"; empty for flags
  std::string help = {};   // one line, lower case, no full stop
  std::vector<std::string> choices = {};
  std::string default_text = {};  // shown in help
  bool repeatable = false;        // else the last one counts
  bool required = false;          // positionals
  bool brief = false;             // also in -h
  bool environment = true;        // HIF8_NAME stands in for it

  std::string Flag() const { return "--" + name; }
  // Returns "HIF8_WEIGHT_SCALE"; empty where the environment has no say.
  std::string EnvironmentName() const;
};

struct Example {
  std::string what;
  std::string command;
};

struct ProgramSpec {
  std::string name;
  std::string summary;  // one line
  std::string usage;    // after the name: "[OPTIONS] MODEL"
  std::vector<OptionSpec> options;
  std::vector<Example> examples;        // -h shows the first two
  std::vector<std::string> generators;  // values of --generate beyond the common ones

  const OptionSpec* Find(const std::string& option) const;
};

// -h, --help, --version, --generate, --json, -q, -v, --color, --log-file: appended by both
// programs.
std::vector<OptionSpec> CommonOptions(const std::vector<std::string>& generators);

}  // namespace hif8::cli
