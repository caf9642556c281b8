#include "apps/common/own_outputs.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/output_dir.h"

namespace hif8::cli {
namespace fs = std::filesystem;
namespace {

constexpr const char* kWritten[] = {"log-file", "stats-out", "output"};

// Of what need not exist: an absolute path, links resolved.
fs::path Canonical(const fs::path& path) { return fs::weakly_canonical(fs::absolute(path)); }

bool IsWritten(const std::string& option) {
  return std::find(std::begin(kWritten), std::end(kWritten), option) != std::end(kWritten);
}

// Whether `target`, an existing file, is a file of the folder. A result has more than its own
// files where somebody put a report beside them, which may be written again.
bool HoldsFile(const fs::path& folder, const fs::path& target) {
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    if (!IsSame(at->path(), target)) continue;
    if (!fs::exists(folder / kFileList)) return true;
    const std::string name = at->path().lexically_relative(folder).generic_string();
    const std::vector<std::string> strangers = StrangersIn(folder);
    return std::find(strangers.begin(), strangers.end(), name) == strangers.end();
  }
  return false;
}

[[noreturn]] void Refuse(const GivenValue& target, const std::string& what) {
  throw UsageError(target.origin + " would overwrite " + what, "choose another file", target.text);
}

// Patterns and numbers may look like paths.
bool NamesFolder(const ProgramSpec& spec, const std::string& option) {
  const OptionSpec* const known = spec.Find(option);
  return option == "data" || option == "eval-data" ||
         (known != nullptr &&
          (known->kind == OptionKind::kPath || known->kind == OptionKind::kPositional));
}

void RequireNoInput(const ProgramSpec& spec, const std::string& name, const GivenValue& target,
                    const ParsedOptions& options) {
  std::error_code error;
  const bool exists = fs::is_regular_file(target.text, error);
  for (const auto& [option, values] : options.values()) {
    if (option == name) continue;
    for (const GivenValue& other : values) {
      const std::string named = "the file that " + other.origin + " names, '" + other.text + "'";
      if (exists && IsSame(target.text, other.text)) Refuse(target, named);
      if (IsWritten(option)) {
        if (Canonical(target.text) == Canonical(other.text)) {
          Refuse(target, named);
        }
      } else if (exists && NamesFolder(spec, option) && fs::is_directory(other.text, error) &&
                 HoldsFile(other.text, target.text)) {
        Refuse(target, "a file of '" + other.text + "', which is read");
      }
    }
  }
}

}  // namespace

bool IsSame(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

bool IsWithin(const fs::path& path, const fs::path& folder) {
  const fs::path inner = Canonical(path);
  const fs::path outer = Canonical(folder);
  for (fs::path at = inner;; at = at.parent_path()) {
    if (at == outer || IsSame(at, outer)) return true;
    if (at == at.root_path() || at.empty()) return false;
  }
}

void RequireOwnOutputs(const ProgramSpec& spec, const ParsedOptions& options) {
  for (const char* const name : kWritten) {
    for (const GivenValue& target : options.All(name)) RequireNoInput(spec, name, target, options);
  }
  for (const GivenValue& output : options.All("output")) {
    std::error_code error;
    if (fs::is_regular_file(output.text, error)) continue;
    for (const char* const name : {"log-file", "stats-out"}) {
      for (const GivenValue& target : options.All(name)) {
        if (!IsWithin(target.text, output.text)) continue;
        throw UsageError(target.origin + " lies in the folder that " + output.origin + " writes",
                         "choose a place outside of '" + output.text + "'", target.text);
      }
    }
  }
}

}  // namespace hif8::cli
