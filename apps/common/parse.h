// From a command line and the environment to checked values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/option_table.h"

namespace hif8::cli {

// A value and where it was given: "--weight-scale", "HIF8_WEIGHT_SCALE" or a positional's name.
struct GivenValue {
  std::string text;
  std::string origin;
  bool from_environment = false;
};

class ParsedOptions {
 public:
  bool Has(const std::string& name) const { return !All(name).empty(); }
  // True when the flag was given.
  bool Flag(const std::string& name) const;
  // Returns the last value, or `otherwise`.
  std::string Text(const std::string& name, const std::string& otherwise = "") const;
  // Valid numbers: parsing has checked them.
  std::optional<int64_t> Count(const std::string& name) const;
  std::optional<double> Number(const std::string& name) const;
  std::optional<uint64_t> Size(const std::string& name) const;
  const std::vector<GivenValue>& All(const std::string& name) const;
  std::vector<std::string> Texts(const std::string& name) const;
  // Returns every value by its option's name.
  const std::map<std::string, std::vector<GivenValue>>& values() const { return values_; }
  // Returns the command line as it was given, for a person to read.
  const std::string& command() const { return command_; }

  void Add(const std::string& name, GivenValue value) { values_[name].push_back(std::move(value)); }
  void SetCommand(std::string command) { command_ = std::move(command); }

 private:
  std::string command_;
  std::map<std::string, std::vector<GivenValue>> values_;
};

// Throws a usage error for an unknown option (with a suggestion), a missing or malformed value, or
// an argument too many. Missing positionals are checked apart, since --help needs none.
ParsedOptions ParseCommandLine(const ProgramSpec& spec, int argc, const char* const* argv);
void RequirePositionals(const ProgramSpec& spec, const ParsedOptions& options);
}  // namespace hif8::cli
