#include "lib/quant/config_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "lib/core/pattern.h"
#include "lib/core/suggest.h"

namespace hif8 {
namespace {

// The last part of a key, and the keys directly below a prefix ("" for the root).
std::vector<std::string> KeysBelow(const std::string& prefix) {
  std::vector<std::string> keys;
  if (prefix.empty()) keys = {"version", "overrides"};
  for (const Param& param : RecipeParams()) {
    if (!param.key.starts_with(prefix)) continue;
    const std::string rest = param.key.substr(prefix.size());
    const std::string key = rest.substr(0, rest.find('.'));
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  return keys;
}

std::string Shortened(const std::string& text) {
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

bool IsPlainScalar(const YAML::Node& node) { return node.IsScalar() && node.Tag() != "!"; }

}  // namespace

void Diagnostics::ThrowIfAny() const {
  if (errors_.empty()) return;
  Error all = errors_.front();
  for (size_t i = 1; i < errors_.size(); ++i) all.Add(errors_[i]);
  throw all;
}

std::string Source::At(const YAML::Mark& mark) const {
  if (!has_positions) return name;
  if (mark.line < 0) return name + ":1:1";
  return name + ":" + std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1);
}

std::string FoundText(const YAML::Node& node) {
  if (node.IsScalar()) return "'" + Shortened(node.Scalar()) + "'";
  if (node.IsSequence()) return "a list of " + std::to_string(node.size());
  if (node.IsMap()) return "a mapping";
  return "nothing";
}

std::vector<Level::Entry> Level::Sorted() const {
  std::vector<Entry> sorted = entries;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Entry& a, const Entry& b) {
    return ParamIndex(a.setting.key) < ParamIndex(b.setting.key);
  });
  return sorted;
}

void Level::Join(Level other) {
  entries.insert(entries.end(), other.entries.begin(), other.entries.end());
  if (other.has_overrides) overrides = std::move(other.overrides);
  has_overrides |= other.has_overrides;
}

const Level::Entry* Level::Find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.setting.key == key) return &entry;
  }
  return nullptr;
}

std::string RecipeReader::NodeWhere(const YAML::Node& node, const std::string& otherwise) const {
  return node.IsDefined() && node.Mark().line >= 0 ? source_.At(node.Mark()) : otherwise;
}

void RecipeReader::ReadRoot(const YAML::Node& root) {
  ReadVersion(root);
  ReadMapping(root, "");
}

void RecipeReader::ReadVersion(const YAML::Node& root) {
  if (!root.IsMap() || !root["version"].IsDefined()) {
    diagnostics_.Add(source_.name + ":1:1", "the key 'version' is missing",
                     "start the recipe with version: 1");
    return;
  }
  const YAML::Node version = root["version"];
  if (!IsPlainScalar(version) || version.Scalar() != "1") {
    diagnostics_.Add(source_.At(version.Mark()), "version: expected 1, found " + FoundText(version),
                     "this program reads recipes of version 1");
  }
}

template <typename F>
void RecipeReader::ForEachKey(const YAML::Node& map, F visit) {
  std::set<std::string> seen;
  for (const auto& item : map) {
    const std::string where = source_.At(item.first.Mark());
    if (!item.first.IsScalar()) {
      diagnostics_.Add(where, "a key must be text, found " + FoundText(item.first),
                       "write 'name: value'");
    } else if (!seen.insert(item.first.Scalar()).second) {
      diagnostics_.Add(where,
                       "the key '" + Shortened(item.first.Scalar()) + "' stands here a second time",
                       "keep one of them");
    } else {
      visit(item.first.Scalar(), item.second, where);
    }
  }
}

void RecipeReader::ReadMapping(const YAML::Node& node, const std::string& prefix) {
  ForEachKey(node, [&](const std::string& key, const YAML::Node& value, const std::string& where) {
    if (!prefix.empty() || key != "version") ReadKey(prefix + key, value, where);
  });
}

void RecipeReader::ReadKey(const std::string& key, const YAML::Node& node,
                           const std::string& where) {
  if (key == "overrides") return ReadOverrides(node, where);
  if (const Param* param = FindParam(key)) {
    ParamValue value;
    if (ReadValue(*param, node, where, &value)) {
      level_.entries.push_back({{key, std::move(value), NodeWhere(node, where)}, false});
    }
    return;
  }
  if (GroupHelp(key).empty()) {
    const size_t dot = key.rfind('.');
    return UnknownKey(key, dot == std::string::npos ? "" : key.substr(0, dot + 1), where);
  }
  if (node.IsMap()) return ReadMapping(node, key + ".");
  if (node.IsNull()) return;
  std::string keys;
  for (const std::string& below : KeysBelow(key + ".")) keys += (keys.empty() ? "" : ", ") + below;
  diagnostics_.Add(NodeWhere(node, where), key + ": expected a mapping, found " + FoundText(node),
                   "its keys: " + keys);
}

void RecipeReader::UnknownKey(const std::string& key, const std::string& prefix,
                              const std::string& where) {
  const std::string last = key.substr(prefix.size());
  const std::vector<std::string> siblings = KeysBelow(prefix);
  std::vector<std::string> near = NearMatches(last, siblings, 1);
  if (!near.empty()) near[0] = prefix + near[0];
  for (const Param& param : RecipeParams()) {  // a known key in the wrong place
    if (!near.empty()) break;
    if (param.key.ends_with("." + last)) near.push_back(param.key);
  }
  std::vector<std::string> all;
  for (const Param& param : RecipeParams()) all.push_back(param.key);
  if (near.empty()) near = NearMatches(key, all, 1);
  diagnostics_.Add(where, "unknown key '" + Shortened(key) + "'",
                   near.empty() ? SuggestionHint(last, siblings.empty() ? all : siblings)
                                : "did you mean '" + near[0] + "'?");
}

void RecipeReader::ReadText(const std::string& key, const std::string& text, bool append) {
  const Param* param = FindParam(key);
  if (param == nullptr) throw BugError("no recipe key " + key, source_.name);
  ParamValue value;
  if (param->kind == ParamKind::kPatternList) {
    if (!CompilePattern(text, source_.name)) return;
    value = std::vector<LayerPattern>{{text, false, source_.name}};
  } else if (!ReadValue(*param, YAML::Node(text), source_.name, &value)) {
    return;
  }
  level_.entries.push_back({{key, std::move(value), source_.name}, append});
}

void RecipeReader::ReadOverrides(const YAML::Node& node, const std::string& where) {
  level_.has_overrides = true;
  if (!node.IsSequence()) {
    diagnostics_.Add(NodeWhere(node, where), "overrides: expected a list, found " + FoundText(node),
                     "write - {match: 'regex', weights: {rule: mse}}, or [] for none");
    return;
  }
  for (const YAML::Node& item : node) {
    Override entry;
    if (ReadOverride(item, &entry)) level_.overrides.push_back(std::move(entry));
  }
}

bool RecipeReader::ReadOverride(const YAML::Node& node, Override* out) {
  static const std::vector<std::string> kKeys = {"match", "optional", "weights", "activations"};
  const std::string where = NodeWhere(node, source_.name);
  if (!node.IsMap()) {
    diagnostics_.Add(where, "an override must be a mapping, found " + FoundText(node),
                     "write - {match: 'regex', weights: {rule: mse}}");
    return false;
  }
  RecipeReader inner(source_, context_, diagnostics_);  // into a level of its own
  bool has_match = false;
  bool good = true;
  ForEachKey(node, [&](const std::string& key, const YAML::Node& value, const std::string& at) {
    if (key == "match") {
      has_match = true;
      good &= ReadMatch("overrides", value, at, &out->pattern);
    } else if (key == "optional") {
      good &= ReadOptional("overrides", value, at, &out->pattern);
    } else if (key == "weights" || key == "activations") {
      inner.ReadKey(key, value, at);
    } else {
      diagnostics_.Add(at, "unknown key '" + Shortened(key) + "' in an override",
                       SuggestionHint(key, kKeys));
    }
  });
  if (!has_match) {
    diagnostics_.Add(where, "an override without 'match'",
                     "add match: 'regular expression over layer names'");
  }
  for (Level::Entry& entry : inner.TakeLevel().Sorted()) {
    out->settings.push_back(std::move(entry.setting));
  }
  return has_match && good;
}

bool RecipeReader::Wrong(const Param& param, const YAML::Node& node, const std::string& where) {
  diagnostics_.Add(where,
                   param.key + ": expected " + param.Expected() + ", found " + FoundText(node),
                   "correct it: the key means " + param.help);
  return false;
}

bool RecipeReader::ReadValue(const Param& param, const YAML::Node& node, const std::string& key_at,
                             ParamValue* value) {
  const std::string where = NodeWhere(node, key_at);
  const auto into = [&](auto typed, auto read) {
    if (!read(&typed)) return false;
    *value = std::move(typed);
    return true;
  };
  switch (param.kind) {
    case ParamKind::kBool:
      if (!IsPlainScalar(node) || (node.Scalar() != "true" && node.Scalar() != "false")) {
        return Wrong(param, node, where);
      }
      *value = node.Scalar() == "true";
      return true;
    case ParamKind::kCountOrAll:
    case ParamKind::kInteger:
      if (param.kind == ParamKind::kCountOrAll && IsPlainScalar(node) && node.Scalar() == "all") {
        *value = int64_t{0};
        return true;
      }
      return into(int64_t{}, [&](auto* v) { return ReadInteger(param, node, where, v); });
    case ParamKind::kNumber:
      return into(double{}, [&](auto* v) { return ReadNumber(param, node, where, v); });
    case ParamKind::kChoice:
    case ParamKind::kFormat:
    case ParamKind::kWeightRule:
    case ParamKind::kActivationRule:
    case ParamKind::kCacheRule:
      return into(std::string{}, [&](auto* v) { return ReadName(param, node, where, v); });
    case ParamKind::kPattern:
      if (!node.IsScalar()) return Wrong(param, node, where);
      *value = node.Scalar();
      return CompilePattern(node.Scalar(), where);
    case ParamKind::kPatternList:
      return into(std::vector<LayerPattern>{}, [&](auto* v) {
        return ReadList(param, node, where, &RecipeReader::ReadPattern, v);
      });
    case ParamKind::kIntegerList:
      return into(std::vector<int64_t>{}, [&](auto* v) {
        return ReadList(param, node, where, &RecipeReader::ReadInteger, v);
      });
    case ParamKind::kNumberList:
      return into(std::vector<double>{}, [&](auto* v) {
        return ReadList(param, node, where, &RecipeReader::ReadNumber, v);
      });
  }
  return false;
}

bool RecipeReader::ReadNumber(const Param& param, const YAML::Node& node, const std::string& where,
                              double* value) {
  if (!IsPlainScalar(node)) return Wrong(param, node, where);
  const std::string& text = node.Scalar();
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *value);
  const bool whole = result.ec == std::errc() && result.ptr == text.data() + text.size();
  if (!whole || !std::isfinite(*value) || *value < param.min || *value > param.max ||
      (param.above_min && *value == param.min)) {
    return Wrong(param, node, where);
  }
  *value += 0.0;  // -0 reads back as 0
  return true;
}

bool RecipeReader::ReadInteger(const Param& param, const YAML::Node& node, const std::string& where,
                               int64_t* value) {
  double number = 0;
  if (!ReadNumber(param, node, where, &number)) return false;
  if (number != std::floor(number) || std::fabs(number) > Param::kMany) {
    return Wrong(param, node, where);
  }
  *value = static_cast<int64_t>(number);
  return true;
}

bool RecipeReader::ReadName(const Param& param, const YAML::Node& node, const std::string& where,
                            std::string* value) {
  if (!node.IsScalar() || node.Scalar().empty()) return Wrong(param, node, where);
  const std::vector<std::string> known = KnownNames(param, context_);
  *value = node.Scalar();
  if (std::find(known.begin(), known.end(), *value) != known.end()) return true;
  // Few rules serve caches: the list is as short as a choice's.
  const std::string expected =
      param.kind == ParamKind::kCacheRule ? ExpectedValues(param, context_) : param.Expected();
  diagnostics_.Add(where, param.key + ": expected " + expected + ", found " + FoundText(node),
                   SuggestionHint(*value, known));
  return false;
}

bool RecipeReader::ReadPattern(const Param& param, const YAML::Node& node, const std::string& where,
                               LayerPattern* pattern) {
  if (!node.IsMap()) return ReadMatch(param.key, node, where, pattern);
  bool good = true;
  bool has_match = false;
  ForEachKey(node, [&](const std::string& key, const YAML::Node& value, const std::string& at) {
    if (key == "match") {
      has_match = true;
      good &= ReadMatch(param.key, value, at, pattern);
    } else if (key == "optional") {
      good &= ReadOptional(param.key, value, at, pattern);
    } else {
      good = false;
      diagnostics_.Add(at, param.key + ": unknown key '" + Shortened(key) + "'",
                       "known: match, optional");
    }
  });
  if (!has_match)
    diagnostics_.Add(where, param.key + ": an entry without 'match'",
                     "write 'match: ' and a regular expression of names");
  return good && has_match;
}

bool RecipeReader::ReadMatch(const std::string& key, const YAML::Node& node,
                             const std::string& key_at, LayerPattern* pattern) {
  pattern->where = NodeWhere(node, key_at);
  if (!node.IsScalar()) {
    diagnostics_.Add(pattern->where,
                     key + ": expected a regular expression, found " + FoundText(node),
                     "quote it if it looks like a list or a mapping");
    return false;
  }
  pattern->match = node.Scalar();
  if (pattern->match.empty()) {
    diagnostics_.Add(pattern->where, key + ": an empty regular expression",
                     "it would match every layer; write '.' for that");
    return false;
  }
  return CompilePattern(pattern->match, pattern->where);
}

bool RecipeReader::ReadOptional(const std::string& key, const YAML::Node& node,
                                const std::string& key_at, LayerPattern* pattern) {
  Param param;
  param.key = key + ".optional";
  ParamValue value = false;
  if (!ReadValue(param, node, key_at, &value)) return false;
  pattern->optional = std::get<bool>(value);
  return true;
}

template <typename T, typename F>
bool RecipeReader::ReadList(const Param& param, const YAML::Node& node, const std::string& where,
                            F read, std::vector<T>* list) {
  if (!node.IsSequence() || (param.length > 0 && node.size() != param.length)) {
    return Wrong(param, node, where);
  }
  bool good = true;
  for (const YAML::Node& item : node) {
    T value{};
    good &= (this->*read)(param, item, NodeWhere(item, where), &value);
    list->push_back(std::move(value));
  }
  return good;
}

bool RecipeReader::CompilePattern(const std::string& text, const std::string& where) {
  try {
    const Pattern compiled(text, where);
    return true;
  } catch (const Error& error) {
    diagnostics_.Add(error);
    return false;
  }
}

}  // namespace hif8
