// How recipe values look as text: in recipes, errors and documentation.
#include <cmath>
#include <type_traits>

#include "lib/core/number_text.h"
#include "lib/quant/config_params.h"

namespace hif8 {
namespace {

std::string PatternText(const LayerPattern& pattern) {
  if (!pattern.optional) return QuotedText(pattern.match);
  return "{match: " + QuotedText(pattern.match) + ", optional: true}";
}

template <typename T, typename F>
std::string ListText(const std::vector<T>& list, F text) {
  std::string all;
  for (const T& entry : list) all += (all.empty() ? "" : ", ") + text(entry);
  return "[" + all + "]";
}

}  // namespace

std::string QuotedText(const std::string& text) {
  bool plain_bytes = true;
  for (const char c : text) plain_bytes &= static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
  std::string quoted;
  if (plain_bytes) {
    for (const char c : text) quoted += c == '\'' ? "''" : std::string(1, c);
    return "'" + quoted + "'";
  }
  constexpr std::string_view kHex = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      quoted += std::string("\\x") + kHex[byte >> 4] + kHex[byte & 15];
    } else if (c == '"' || c == '\\') {
      quoted += std::string("\\") + c;
    } else {
      quoted += c;
    }
  }
  return "\"" + quoted + "\"";
}

std::vector<std::string> KnownNames(const Param& param, const ParseContext& context) {
  const auto rules = [&](bool RuleTraits::*serves) {
    std::vector<std::string> names;
    for (const std::string& name : context.rules.names()) {
      if (context.rules.Get(name).traits().*serves) names.push_back(name);
    }
    return names;
  };
  if (param.kind == ParamKind::kFormat) return context.formats.names();
  if (param.kind == ParamKind::kWeightRule) return rules(&RuleTraits::weights);
  const bool cache = param.kind == ParamKind::kCacheRule;
  if (!cache && param.kind != ParamKind::kActivationRule) return param.choices;
  std::vector<std::string> names = rules(cache ? &RuleTraits::caches : &RuleTraits::activations);
  names.insert(names.begin(), std::string(kRuleOff));
  return names;
}

std::string ExpectedValues(const Param& param, const ParseContext& context) {
  const std::vector<std::string> names = KnownNames(param, context);
  if (names.empty()) return param.Expected();
  std::string list = "one of ";
  for (const std::string& name : names) list += (name == names.front() ? "" : ", ") + name;
  return list;
}

std::string NumberText(double value) {
  // Plain digits for whole numbers of a moderate size, where 1e+06 would be shorter but odd.
  const bool plain = value == std::trunc(value) && std::fabs(value) < 1e9;
  return plain ? std::to_string(static_cast<int64_t>(value)) : ShortestText(value);
}

std::string ValueText(const Param& param, const ParamValue& value) {
  const auto text = [&](const auto& v) -> std::string {
    using T = std::remove_cvref_t<decltype(v)>;
    if constexpr (std::is_same_v<T, bool>) {
      return v ? "true" : "false";
    } else if constexpr (std::is_same_v<T, int64_t>) {
      return param.kind == ParamKind::kCountOrAll && v == 0 ? "all" : std::to_string(v);
    } else if constexpr (std::is_same_v<T, double>) {
      return NumberText(v);
    } else if constexpr (std::is_same_v<T, std::string>) {
      return param.kind == ParamKind::kPattern ? QuotedText(v) : v;
    } else if constexpr (std::is_same_v<T, std::vector<LayerPattern>>) {
      return ListText(v, PatternText);
    } else if constexpr (std::is_same_v<T, std::vector<double>>) {
      return ListText(v, NumberText);
    } else {
      return ListText(v, [](int64_t n) { return std::to_string(n); });
    }
  };
  return std::visit(text, value);
}

std::string Param::Expected() const {
  const auto interval = [this](const std::string& what) {
    const bool lower = min > -std::numeric_limits<double>::infinity();
    const bool upper = max < kMany;
    if (lower && upper) {
      return what + (above_min ? " above " : " from ") + NumberText(min) +
             (above_min ? ", at most " : " to ") + NumberText(max);
    }
    if (lower) return what + (above_min ? " above " : " of at least ") + NumberText(min);
    return what;
  };
  switch (kind) {
    case ParamKind::kBool:
      return "true or false";
    case ParamKind::kInteger:
      return interval("an integer");
    case ParamKind::kCountOrAll:
      return interval("an integer") + ", or all";
    case ParamKind::kNumber:
      return interval("a number");
    case ParamKind::kChoice: {
      std::string list;
      for (const std::string& choice : choices) list += (list.empty() ? "" : ", ") + choice;
      return "one of " + list;
    }
    case ParamKind::kFormat:
      return "a number format";
    case ParamKind::kWeightRule:
      return "a scale rule";
    case ParamKind::kActivationRule:
    case ParamKind::kCacheRule:
      return "a scale rule, or off";
    case ParamKind::kPattern:
      return "a regular expression";
    case ParamKind::kPatternList:
      return "a list of regular expressions";
    case ParamKind::kIntegerList:
      return "a list of " + std::to_string(length) + ": " + interval("an integer");
    case ParamKind::kNumberList:
      return "a list of " + std::to_string(length) + ": " + interval("a number");
  }
  return {};
}

}  // namespace hif8
