// The table of recipe keys: the one place that knows name, type, range and help of each.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "lib/quant/config.h"

namespace hif8 {

enum class ParamKind {
  kBool,
  kInteger,
  kCountOrAll,  // an integer, or `all`, which is 0
  kNumber,
  kChoice,          // one of `choices`
  kFormat,          // a registered number format
  kWeightRule,      // a registered scale rule that serves weights
  kActivationRule,  // one that serves activations, or kRuleOff
  kCacheRule,       // one that serves caches, or kRuleOff
  kPattern,         // a regular expression, may be empty
  kPatternList,
  kIntegerList,  // of `length` entries
  kNumberList
};

struct Param {
  static constexpr double kMany = 1e15;  // as `max`: no limit worth telling

  std::string key;  // "data.image.size"
  ParamKind kind = ParamKind::kBool;
  std::string help;                  // one line
  std::vector<std::string> choices;  // kChoice
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;   // min itself is not allowed
  size_t length = 0;        // of lists; 0: any
  bool input_only = false;  // never written: another key carries its meaning (guard)
  std::function<ParamValue(const QuantConfig&)> get;
  std::function<void(QuantConfig&, const ParamValue&)> set;

  // Describes the values it takes, for errors and documentation: "a number above 0, at most 100",
  // "one of tensor, channel"; formats and rules without their names.
  std::string Expected() const;
  // May stand in an override.
  bool PerLayer() const { return key.starts_with("weights.") || key.starts_with("activations."); }
};

// In the order in which recipes are written. A key's operand precedes: format, then target.
const std::vector<Param>& RecipeParams();
const Param* FindParam(std::string_view key);
// Position in RecipeParams().
size_t ParamIndex(std::string_view key);
// The help of a group of keys ("weights", "data.image"), or empty when there is no such group.
std::string_view GroupHelp(std::string_view group);

// Returns the names that a key takes: choices, registered formats or rules; empty for other kinds.
std::vector<std::string> KnownNames(const Param& param, const ParseContext& context);
// Describes the values that a key takes, formats and rules by their names.
std::string ExpectedValues(const Param& param, const ParseContext& context);

void ApplySetting(QuantConfig& config, const ParamSetting& setting);

// Shortest text that reads back to the same number.
std::string NumberText(double value);
// Quoted so that any text reads back.
std::string QuotedText(const std::string& text);
// Returns a value as recipes write it, on one line.
std::string ValueText(const Param& param, const ParamValue& value);

// Returns a Markdown table of all keys with type, default and help.
std::string RecipeReference(const ParseContext& context);

}  // namespace hif8
