// Reading YAML that people write: one document, every error with its place.
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/core/error.h"

namespace hif8 {

// Gathers errors, so that a person sees all of them at once.
class Diagnostics {
 public:
  void Add(std::string where, std::string message, std::string hint) {
    Add(UsageError(std::move(message), std::move(hint), std::move(where)));
  }
  void Add(Error error) {
    if (errors_.size() < kMost) errors_.push_back(std::move(error));
  }
  bool empty() const { return errors_.empty(); }
  // Throws the first error with the others attached, if there are any.
  void ThrowIfAny() const;

 private:
  static constexpr size_t kMost = 20;
  std::vector<Error> errors_;
};

// Says where a value comes from: a file, whose positions are worth telling, or an option.
struct Source {
  std::string name;
  bool has_positions = false;
  std::string At(const YAML::Mark& mark) const;
};

// Returns "'abc'", "a list", "nothing": a node in errors.
std::string FoundText(const YAML::Node& node);

// Returns the text, or its beginning where it is long.
std::string Shortened(const std::string& text);

// True for a scalar that is not quoted.
bool IsPlainScalar(const YAML::Node& node);

// Reads the one document of `text` into `root`, or returns false after a report. `what` names the
// kind of file in reports: "recipe".
bool ParseYaml(const std::string& text, const std::string& what, const Source& source,
               Diagnostics& diagnostics, YAML::Node* root);

// Calls visit(key, node, where) for every key of a mapping; reports keys that are no text or stand
// there twice.
using VisitKey =
    std::function<void(const std::string& key, const YAML::Node& node, const std::string& where)>;
void ForEachKey(const YAML::Node& map, const Source& source, Diagnostics& diagnostics,
                const VisitKey& visit);

}  // namespace hif8
