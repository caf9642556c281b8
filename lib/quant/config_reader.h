// Inside of recipe parsing: from YAML nodes to validated settings, and from settings to a
// configuration. Not for use outside lib/quant.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <string_view>
#include <vector>

#include "lib/core/error.h"
#include "lib/quant/config.h"
#include "lib/quant/config_params.h"
#include "lib/yaml/yaml_text.h"

namespace hif8 {

// The settings of one level of precedence.
struct Level {
  struct Entry {
    ParamSetting setting;
    bool append = false;  // to a list of patterns
  };
  std::vector<Entry> entries;
  bool has_overrides = false;
  std::vector<Override> overrides;

  void Join(Level other);
  // In the order of the table, in which settings are applied: format before target.
  std::vector<Entry> Sorted() const;
  const Entry* Find(std::string_view key) const;
};

// Reads one source into a level.
class RecipeReader {
 public:
  RecipeReader(Source source, const ParseContext& context, Diagnostics& diagnostics)
      : source_(std::move(source)), context_(context), diagnostics_(diagnostics) {}

  void ReadRoot(const YAML::Node& root);
  // Any key: of a value, a group or the overrides.
  void ReadKey(const std::string& key, const YAML::Node& node, const std::string& where);
  // A value that is text already; `append`: one more entry of a list of patterns.
  void ReadText(const std::string& key, const std::string& text, bool append);
  Level TakeLevel() { return std::move(level_); }

 private:
  void ReadMapping(const YAML::Node& node, const std::string& prefix);
  void ReadVersion(const YAML::Node& root);
  void ReadOverrides(const YAML::Node& node, const std::string& where);
  bool ReadOverride(const YAML::Node& node, Override* out);
  void UnknownKey(const std::string& key, const std::string& prefix, const std::string& where);

  // Each returns false after having reported why the value cannot be used.
  bool ReadValue(const Param& param, const YAML::Node& node, const std::string& where,
                 ParamValue* value);
  bool ReadNumber(const Param& param, const YAML::Node& node, const std::string& where,
                  double* value);
  bool ReadInteger(const Param& param, const YAML::Node& node, const std::string& where,
                   int64_t* value);
  bool ReadName(const Param& param, const YAML::Node& node, const std::string& where,
                std::string* value);
  bool ReadPattern(const Param& param, const YAML::Node& node, const std::string& where,
                   LayerPattern* pattern);
  // Returns the parts of a pattern; `key` names its list in errors.
  bool ReadMatch(const std::string& key, const YAML::Node& node, const std::string& where,
                 LayerPattern* pattern);
  bool ReadOptional(const std::string& key, const YAML::Node& node, const std::string& where,
                    LayerPattern* pattern);
  template <typename T, typename F>
  bool ReadList(const Param& param, const YAML::Node& node, const std::string& where, F read,
                std::vector<T>* list);
  bool CompilePattern(const std::string& text, const std::string& where);
  bool Wrong(const Param& param, const YAML::Node& node, const std::string& where);
  std::string NodeWhere(const YAML::Node& node, const std::string& otherwise) const;

  Source source_;
  const ParseContext& context_;
  Diagnostics& diagnostics_;
  Level level_;
};

// Lays levels over the defaults and completes the result.
class ConfigBuilder {
 public:
  ConfigBuilder(const ParseContext& context, Diagnostics& diagnostics);
  void Apply(Level level);
  // Resolves targets, checks what concerns several keys, and throws all that was found.
  QuantConfig Finish();

 private:
  void CheckConflicts(const Level& level);
  void FinishOperand(OperandConfig& operand, const std::string& name);
  void FinishOverride(Override& entry, const std::string& operand, const std::string& base_format);
  // Returns the target that `guard` stands for in that format, or the format's own.
  double TargetOf(const NumberFormat& format, std::optional<int> guard, const std::string& where);
  void CheckTarget(const NumberFormat& format, double target, const std::string& where);

  const ParseContext& context_;
  Diagnostics& diagnostics_;
  QuantConfig config_;
};

}  // namespace hif8
