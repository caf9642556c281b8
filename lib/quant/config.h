// The recipe: everything that decides what is quantized and how, as plain data.
//
// Its keys, types, ranges, defaults and help stand in one table (config_params.h), which drives
// parsing, `--set`, the resolved recipe that is written beside a result, and the documentation.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/model/safetensors/layout.h"
#include "lib/numeric/number_format.h"
#include "lib/numeric/scale_layout.h"
#include "lib/quant/calibrator.h"
#include "lib/runtime/dataset.h"

namespace hif8 {

// In the place of a rule: the operand is not quantized.
inline constexpr std::string_view kRuleOff = "off";

// Says whether weights are rounded one by one, or for the outputs of their layers.
enum class WeightRounding { kNearest, kCompensated };
template <>
inline constexpr EnumTable<WeightRounding, 2> kEnumNames<WeightRounding>{
    {{WeightRounding::kNearest, "nearest"}, {WeightRounding::kCompensated, "compensated"}}};

// Describes how one kind of operand is quantized. Complete after loading: `rule` and `target` are
// set and `guard` is gone.
struct OperandConfig {
  std::string format;  // name of a registered number format
  Granularity granularity = Granularity::kTensor;
  std::string rule;          // name of a registered scale rule; not of weights: kRuleOff
  double target = 0;         // magnitude that the reference is mapped to; 0: not given yet
  std::optional<int> guard;  // binades kept free above the reference; turned into `target`
  double percentile = 99;    // percent of magnitudes, (0, 100]
  bool power_of_two = false;
  bool clip = false;  // activations: values are clipped to +-target first
  ScaleDType scale_dtype = ScaleDType::kF32;
  WeightRounding rounding = WeightRounding::kNearest;  // weights

  bool operator==(const OperandConfig&) const = default;
};

// Says what becomes of experts that saw few rows.
enum class RarePolicy { kPooled, kKeep, kError };
template <>
inline constexpr EnumTable<RarePolicy, 3> kEnumNames<RarePolicy>{
    {{RarePolicy::kPooled, "pooled"}, {RarePolicy::kKeep, "keep"}, {RarePolicy::kError, "error"}}};

struct ExpertsConfig {
  int64_t min_rows = 32;  // experts that saw fewer rows are rare
  RarePolicy rare = RarePolicy::kPooled;
  bool route_all = false;  // every row through every expert, for statistics only
  bool operator==(const ExpertsConfig&) const = default;
};

// The network that the statistics of later blocks come from.
enum class Propagate { kOriginal, kQuantized };
template <>
inline constexpr EnumTable<Propagate, 2> kEnumNames<Propagate>{
    {{Propagate::kOriginal, "original"}, {Propagate::kQuantized, "quantized"}}};

// Says what becomes of layers that loaders run as one module (q, k and v; gate and up; the
// projections of latent attention that read the block's input; a block's experts) when a recipe or
// a choice gives them several schemes.
enum class FusedPolicy {
  kComplete,  // all get what some were given; some kept: all are
  kError,
  kIgnore
};
template <>
inline constexpr EnumTable<FusedPolicy, 3> kEnumNames<FusedPolicy>{
    {{FusedPolicy::kComplete, "complete"},
     {FusedPolicy::kError, "error"},
     {FusedPolicy::kIgnore, "ignore"}}};

// Names a list of layers that stay besides those that the recipe names.
enum class KeepPolicy {
  kLayout,  // those of the layout
  kNone,
  kCann  // what Ascend's converters keep
};
template <>
inline constexpr EnumTable<KeepPolicy, 3> kEnumNames<KeepPolicy>{
    {{KeepPolicy::kLayout, "layout"}, {KeepPolicy::kNone, "none"}, {KeepPolicy::kCann, "cann"}}};

struct DataConfig {
  int64_t samples = 0;  // 0: all
  int64_t sequence_length = 512;
  int64_t batch = 1;       // samples per run where the model leaves its batch open; 0: all
  bool drop_last = false;  // drop the samples that do not fill a fixed batch
  ImageOptions image;
  bool operator==(const DataConfig&) const = default;
};

// A regular expression over layer names. A pattern that is not `optional` must match some layer.
struct LayerPattern {
  std::string match;
  bool optional = false;  // set in the built-in recipes, which do not know the model
  std::string where;      // for errors: file:line:column or the option
  bool operator==(const LayerPattern& other) const {
    return match == other.match && optional == other.optional;
  }
};

using ParamValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>,
                                std::vector<double>, std::vector<LayerPattern>>;

// A validated value for one key of the table, e.g. {"weights.target", 8.0}.
struct ParamSetting {
  std::string key;
  ParamValue value;
  std::string where;  // for errors: file:line:column or the option
  bool operator==(const ParamSetting& other) const {
    return key == other.key && value == other.value;
  }
};

// Settings for the layers that a pattern matches.
struct Override {
  LayerPattern pattern;
  std::vector<ParamSetting> settings;
  bool operator==(const Override&) const = default;
};

// Tells where the value of each key stands: file:line:column or the option; nothing for defaults.
// It is no part of what a recipe says.
struct KeyPlaces {
  std::map<std::string, std::string, std::less<>> at;
  std::string Of(std::string_view key) const {
    const auto found = at.find(key);
    return found == at.end() ? "" : found->second;
  }
  bool operator==(const KeyPlaces& /*other*/) const { return true; }
};

struct QuantConfig {
  OperandConfig weights;
  OperandConfig activations;
  OperandConfig kv_cache;
  bool kv_cache_per_head = false;  // a scale for each head's keys and values
  bool attention = false;          // also the products of two activations
  bool embeddings = false;         // also embedding tables
  bool lm_head = false;            // also the language model head
  bool beside = false;             // also what lies beside the network that runs
  DelayedParams delayed;
  MseParams mse;
  ExpertsConfig experts;
  int64_t high_precision_layers = 0;  // transformer blocks that stay as they are
  std::string blocks;                 // regular expression whose group is a layer's block number
  Propagate propagate = Propagate::kOriginal;
  LayoutKind layout = LayoutKind::kCompressedTensors;  // of a checkpoint's files
  FusedPolicy fused_groups = FusedPolicy::kComplete;
  KeepPolicy policy = KeepPolicy::kLayout;
  std::vector<LayerPattern> keep;
  std::vector<LayerPattern> only;
  std::vector<Override> overrides;  // later ones win
  DataConfig data;
  KeyPlaces places;

  bool operator==(const QuantConfig&) const = default;
};

// Lists what names in a recipe may refer to. The first registered format and the first registered
// rule are the default ones.
struct ParseContext {
  const FormatRegistry& formats;
  const CalibratorRegistry& rules;
};

// A value that a flag or an environment variable gives, stronger than the recipe.
struct ConfigAssignment {
  enum class Mode {
    kYaml,   // `text` is YAML, as in --set key=value
    kText,   // `text` is the value itself
    kAppend  // `text` is one more entry of a list of patterns (--keep)
  };
  std::string key;  // "weights.rule"
  std::string text;
  std::string origin;  // for errors: "--weight-scale", "HIF8_WEIGHT_SCALE"
  Mode mode = Mode::kText;
};

struct BuiltInRecipe {
  std::string_view name;
  std::string_view description;  // one line for --list recipes
  std::string_view text;         // YAML
};
std::span<const BuiltInRecipe> BuiltInRecipes();

// Returns a recipe from YAML text. `source` names it in errors. Throws one usage error that carries
// all that was found (at most 20), each with source:line:column.
QuantConfig ParseRecipe(std::string_view yaml, const std::string& source,
                        const ParseContext& context);

// Returns the built-in recipe of that name or else the recipe in that file, then `weaker`
// (environment) and `stronger` (flags) assignments over it. Within a level the order of the
// assignments counts only for the same key. Throws as ParseRecipe.
QuantConfig LoadConfig(const std::string& name_or_path, std::span<const ConfigAssignment> weaker,
                       std::span<const ConfigAssignment> stronger, const ParseContext& context);

// "weights.rule=mse" of --set as an assignment. Throws a usage error when there is no '='.
ConfigAssignment ParseSetOption(const std::string& text);

// Returns the configuration as a recipe with every key; parsing it gives the same configuration,
// and writing that the same bytes. With `comments` each key has its help above it.
std::string WriteRecipe(const QuantConfig& config, bool comments = false);

}  // namespace hif8
