#include "lib/quant/config_layers.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "lib/core/suggest.h"
#include "lib/quant/config_params.h"
#include "lib/quant/delayed_scaling.h"

namespace hif8 {
namespace {

std::vector<Pattern> Compile(const std::vector<LayerPattern>& patterns) {
  std::vector<Pattern> compiled;
  compiled.reserve(patterns.size());
  for (const LayerPattern& pattern : patterns) compiled.emplace_back(pattern.match, pattern.where);
  return compiled;
}

// What the converters of Ascend's inference recipes keep beside heads, norms and routers
// (hicann/cann-recipes-infer, generate_ignore_item in models/*/utils/convert_{model,config}.py of
// DeepSeek-R1, DeepSeek-V3.2, GLM-5, LongCat and Bailing). DeepSeek-V4's, under names of its own,
// keeps none of them.
constexpr std::array<std::string_view, 3> kKeptByCann = {
    R"(\.kv_b_proj$)", R"((^|\.)eh_proj$)", R"(\.self_attn\.indexer\.(wk|weights_proj)$)"};

std::span<const std::string_view> PolicyPatterns(const QuantConfig& config) {
  const bool own = config.policy == KeepPolicy::kLayout && config.layout == LayoutKind::kCann;
  if (own || config.policy == KeepPolicy::kCann) return kKeptByCann;
  return {};
}

bool IsSeparator(char c) { return c == '.' || c == '/'; }

// A pattern without what only regular expressions have: "^layers\.9\." -> "layers.9".
std::string Literal(const std::string& pattern) {
  std::string text;
  for (const char c : pattern) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' ||
        IsSeparator(c)) {
      text += c;
    }
  }
  while (!text.empty() && IsSeparator(text.back())) text.pop_back();
  return text;
}

// All parts of the names that have as many components as `like`: of a.b.c and two, a.b and b.c.
std::vector<std::string> PartsLike(const std::string& like, std::span<const std::string> names) {
  const auto components =
      static_cast<size_t>(std::count_if(like.begin(), like.end(), IsSeparator)) + 1;
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    std::vector<size_t> starts = {0};
    for (size_t i = 0; i < name.size(); ++i) {
      if (IsSeparator(name[i])) starts.push_back(i + 1);
    }
    starts.push_back(name.size() + 1);
    for (size_t i = 0; i + components < starts.size(); ++i) {
      parts.push_back(name.substr(starts[i], starts[i + components] - 1 - starts[i]));
    }
  }
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  return parts;
}

Error NoMatch(const std::string& what, const LayerPattern& pattern,
              std::span<const std::string> layers) {
  const std::string literal = Literal(pattern.match);
  std::vector<std::string> near = NearMatches(literal, PartsLike(literal, layers));
  if (near.empty()) near = NearMatches(literal, layers);
  std::string hint;
  for (const std::string& name : near) hint += (hint.empty() ? "near: " : ", ") + name;
  if (near.empty()) {
    for (size_t i = 0; i < std::min<size_t>(3, layers.size()); ++i) {
      hint += (i == 0 ? "layers have names like " : ", ") + layers[i];
    }
  }
  return UsageError(what + " '" + pattern.match + "' matches none of the model's " +
                        std::to_string(layers.size()) + " layers",
                    hint.empty() ? "drop the pattern: the model has no layers" : hint,
                    pattern.where);
}

bool MatchesAny(const Pattern& pattern, std::span<const std::string> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return pattern.Matches(name); });
}

void AddUnmatched(const std::string& what, const LayerPattern& pattern, const Pattern& compiled,
                  std::span<const std::string> layers, std::vector<Error>& errors) {
  if (pattern.optional) return;
  if (!MatchesAny(compiled, layers)) errors.push_back(NoMatch(what, pattern, layers));
}

}  // namespace

LayerRules::LayerRules(const QuantConfig& config)
    : config_(config), keep_(Compile(config.keep)), only_(Compile(config.only)) {
  for (const std::string_view pattern : PolicyPatterns(config)) {
    policy_.emplace_back(std::string(pattern), "policy");
  }
  for (const Override& entry : config.overrides) {
    overrides_.emplace_back(entry.pattern.match, entry.pattern.where);
  }
}

std::string LayerRules::KeptBecause(std::span<const std::string> layers) const {
  const auto matches = [&](const Pattern& pattern) { return MatchesAny(pattern, layers); };
  const auto keep = std::find_if(keep_.begin(), keep_.end(), matches);
  if (keep != keep_.end()) return "matches keep '" + keep->text() + "'";
  if (std::any_of(policy_.begin(), policy_.end(), matches)) {
    return "policy cann: Ascend's converters keep it";
  }
  if (!only_.empty() && std::none_of(only_.begin(), only_.end(), matches)) {
    return only_.size() == 1 ? "does not match only '" + only_.front().text() + "'"
                             : "matches none of the patterns of only";
  }
  return {};
}

LayerConfig LayerRules::Resolve(std::span<const std::string> layers) const {
  QuantConfig resolved;
  resolved.weights = config_.weights;
  resolved.activations = config_.activations;
  for (size_t i = 0; i < overrides_.size(); ++i) {
    if (!MatchesAny(overrides_[i], layers)) continue;
    for (const ParamSetting& setting : config_.overrides[i].settings) {
      ApplySetting(resolved, setting);
    }
  }
  return {resolved.weights, resolved.activations};
}

std::string LayerRules::PlaceOf(const std::string& key, const std::string& layer) const {
  std::string place = config_.places.Of(key);
  for (size_t i = 0; i < overrides_.size(); ++i) {
    if (!overrides_[i].Matches(layer)) continue;
    for (const ParamSetting& setting : config_.overrides[i].settings) {
      if (setting.key == key) place = setting.where;
    }
  }
  return place;
}

std::vector<Error> LayerRules::Unmatched(std::span<const std::string> layers) const {
  std::vector<Error> errors;
  for (size_t i = 0; i < keep_.size(); ++i) {
    AddUnmatched("keep", config_.keep[i], keep_[i], layers, errors);
  }
  for (size_t i = 0; i < only_.size(); ++i) {
    AddUnmatched("only", config_.only[i], only_[i], layers, errors);
  }
  for (size_t i = 0; i < overrides_.size(); ++i) {
    AddUnmatched("override", config_.overrides[i].pattern, overrides_[i], layers, errors);
  }
  return errors;
}

void LayerRules::RequireMatches(std::span<const std::string> layers) const {
  const std::vector<Error> errors = Unmatched(layers);
  if (errors.empty()) return;
  Error all = errors.front();
  for (size_t i = 1; i < errors.size(); ++i) all.Add(errors[i]);
  throw all;
}

bool IsHighPrecisionBlock(int block, int block_count, int64_t n) {
  if (block < 0) return false;
  return block < (n + 1) / 2 || block >= block_count - n / 2;
}

ScaleParams MakeScaleParams(const OperandConfig& operand, const QuantConfig& config) {
  return {operand.target,      operand.percentile, operand.power_of_two,
          operand.scale_dtype, config.mse,         config.delayed};
}

}  // namespace hif8
