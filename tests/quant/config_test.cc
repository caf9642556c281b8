// Recipes: defaults, what is accepted, levels of precedence, the resolved file, single layers.
#include "lib/quant/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/quant/config_layers.h"
#include "lib/quant/config_params.h"
#include "tests/quant/config_fakes.h"

namespace hif8 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Mode = ConfigAssignment::Mode;

std::vector<std::string> One(const std::string& layer) { return {layer}; }

class ConfigTest : public ::testing::Test {
 protected:
  QuantConfig Parse(const std::string& yaml) { return ParseRecipe(yaml, "r.yaml", fakes_.context); }
  QuantConfig Load(const std::string& name, const std::vector<ConfigAssignment>& weaker = {},
                   const std::vector<ConfigAssignment>& stronger = {}) {
    return LoadConfig(name, weaker, stronger, fakes_.context);
  }
  static ConfigAssignment Set(const std::string& text) { return ParseSetOption(text); }

  testing::FakeRegistries fakes_;
};

TEST_F(ConfigTest, DefaultsAreThoseOfTheDocumentedRecipe) {
  const QuantConfig c = Load("inference");
  EXPECT_EQ(c.weights.format, "tapered");
  EXPECT_EQ(c.weights.granularity, Granularity::kChannel);
  EXPECT_EQ(c.weights.rule, "max");
  EXPECT_EQ(c.weights.target, 16);
  EXPECT_EQ(c.weights.percentile, 99.9);
  EXPECT_FALSE(c.weights.power_of_two);
  EXPECT_EQ(c.weights.scale_dtype, ScaleDType::kF32);
  EXPECT_EQ(c.activations.granularity, Granularity::kTensor);
  EXPECT_EQ(c.activations.percentile, 99);
  EXPECT_EQ(c.activations.target, 16);
  EXPECT_FALSE(c.activations.clip);
  EXPECT_EQ(c.kv_cache.rule, "off");
  EXPECT_EQ(c.kv_cache.target, 16);
  EXPECT_FALSE(c.attention);
  EXPECT_EQ(c.delayed.rule, DelayedRule::kMax);
  EXPECT_EQ(c.delayed.history, 64);
  EXPECT_EQ(c.delayed.interval, 10);
  EXPECT_EQ(c.delayed.alpha, 0.1);
  EXPECT_EQ(c.mse.objective, MseObjective::kTensor);
  EXPECT_EQ(c.mse.steps_per_octave, 12);
  EXPECT_EQ(c.mse.octaves, 4);
  EXPECT_EQ(c.experts.min_rows, 32);
  EXPECT_EQ(c.experts.rare, RarePolicy::kPooled);
  EXPECT_FALSE(c.experts.route_all);
  EXPECT_EQ(c.high_precision_layers, 0);
  EXPECT_EQ(c.propagate, Propagate::kOriginal);
  EXPECT_TRUE(c.keep.empty() && c.only.empty() && c.overrides.empty());
  EXPECT_EQ(c.data.samples, 0);
  EXPECT_EQ(c.data.sequence_length, 512);
  EXPECT_THAT(c.data.image.size, ElementsAre(224, 224));
  EXPECT_THAT(c.data.image.mean, ElementsAre(0, 0, 0));
  EXPECT_THAT(c.data.image.std, ElementsAre(1, 1, 1));
  EXPECT_EQ(c.data.image.layout, ImageLayout::kNchw);
  EXPECT_EQ(c.data.image.channels, ImageChannels::kRgb);
}

TEST_F(ConfigTest, BuiltInRecipes) {
  EXPECT_EQ(Load("cast").activations.rule, "cast");
  EXPECT_EQ(Load("cast").weights, Load("inference").weights);
  const QuantConfig pangu = Load("pangu-qat");
  EXPECT_EQ(pangu.weights.granularity, Granularity::kTensor);
  EXPECT_EQ(pangu.weights.target, 15);
  EXPECT_EQ(pangu.activations.target, 15);
  EXPECT_TRUE(pangu.activations.clip);
  EXPECT_EQ(pangu.high_precision_layers, 5);
  const LayerRules rules(pangu);
  EXPECT_EQ(rules.KeptBecause(One("model.layers.3.mlp.gate_proj")), "");
  EXPECT_EQ(rules.KeptBecause(One("model.layers.3.mlp.down_proj")), "");
  EXPECT_THAT(rules.KeptBecause(One("model.layers.3.self_attn.q_proj")), HasSubstr("only"));
  EXPECT_TRUE(rules.Unmatched(std::vector<std::string>{"conv1"}).empty());
}

TEST_F(ConfigTest, ReadsEveryKey) {
  const QuantConfig c = Parse(R"(
version: 1
weights: {format: flat8, granularity: tensor, rule: percentile, percentile: 99.5, power_of_two: true, scale_dtype: bf16}
activations: {granularity: token, target: 4.5, clip: true}
kv_cache: {rule: mse, guard: 13}
attention: true
embeddings: true
lm_head: true
delayed: {rule: exp_smooth, history: 128, interval: 5, alpha: 0.25}
mse: {objective: output, steps_per_octave: 6, octaves: 2.5}
experts: {min_rows: 0, rare: keep, route_all: true}
high_precision_layers: 5
blocks: 'blk(\d+)'
propagate: quantized
keep: ['^head\.', {match: vision, optional: true}]
only: [b]
data: {samples: 7, sequence_length: 64, batch: 3, drop_last: true,
       image: {size: [48, 320], mean: [0.5, 0.25, 1e-3], std: [0.5, 2, 1], layout: nhwc, channels: bgr}}
overrides:
  - {match: 'a', weights: {rule: mse}}
)");
  EXPECT_EQ(c.weights.format, "flat8");
  EXPECT_EQ(c.weights.target, 448);
  EXPECT_EQ(c.weights.scale_dtype, ScaleDType::kBF16);
  EXPECT_EQ(c.activations.granularity, Granularity::kToken);
  EXPECT_EQ(c.activations.target, 4.5);
  EXPECT_EQ(c.kv_cache.target, 4);  // 2^(15 - 13)
  EXPECT_FALSE(c.kv_cache.guard.has_value());
  EXPECT_TRUE(c.attention && c.embeddings && c.lm_head && c.experts.route_all);
  EXPECT_EQ(c.delayed.alpha, 0.25);
  EXPECT_EQ(c.mse.octaves, 2.5);
  EXPECT_EQ(c.blocks, "blk(\\d+)");
  ASSERT_EQ(c.keep.size(), 2u);
  EXPECT_EQ(c.keep[0], (LayerPattern{"^head\\.", false, ""}));
  EXPECT_EQ(c.keep[0].where, "r.yaml:15:8");
  EXPECT_EQ(c.keep[1], (LayerPattern{"vision", true, ""}));
  EXPECT_THAT(c.data.image.size, ElementsAre(48, 320));
  EXPECT_THAT(c.data.image.mean, ElementsAre(0.5, 0.25, 1e-3));
  EXPECT_EQ(c.data.samples, 7);
  ASSERT_EQ(c.overrides.size(), 1u);
}

TEST_F(ConfigTest, GuardIsATargetCountedFromTheLargestExponent) {
  for (const auto& [guard, target] :
       std::vector<std::pair<int, double>>{{11, 16}, {12, 8}, {9, 64}, {0, 32768}, {17, 0.25}}) {
    const QuantConfig c = Parse("version: 1\nweights: {guard: " + std::to_string(guard) + "}\n");
    EXPECT_EQ(c.weights.target, target) << guard;
    EXPECT_THAT(WriteRecipe(c), HasSubstr("target: "));
    EXPECT_THAT(WriteRecipe(c), ::testing::Not(HasSubstr("guard")));
  }
}

TEST_F(ConfigTest, StrongerLevelsWin) {
  const std::string path = ::testing::TempDir() + "precedence.yaml";
  std::ofstream(path) << "version: 1\nweights: {rule: mse, target: 8}\nkeep: [own]\n";
  QuantConfig c = Load(path, {{"weights.rule", "percentile", "HIF8_WEIGHT_SCALE"}});
  EXPECT_EQ(c.weights.rule, "percentile");
  EXPECT_EQ(c.weights.target, 8);
  c = Load(path, {{"weights.rule", "percentile", "HIF8_WEIGHT_SCALE"}},
           {{"weights.rule", "max", "--weight-scale"},
            {"keep", "[a-z]", "--keep", Mode::kAppend},
            {"keep", "x", "--keep", Mode::kAppend}});
  EXPECT_EQ(c.weights.rule, "max");
  ASSERT_EQ(c.keep.size(), 3u);
  EXPECT_EQ(c.keep[0].match, "own");
  EXPECT_EQ(c.keep[1].match, "[a-z]");
  EXPECT_EQ(c.keep[2].match, "x");
  EXPECT_EQ(c.keep[2].where, "--keep");
}

TEST_F(ConfigTest, SetTakesYaml) {
  const QuantConfig c =
      Load("inference", {},
           {Set("data.image.mean=[1, 2, 3]"), Set("weights={rule: mse, granularity: tensor}"),
            Set("keep=['a=b', c]"), Set("data.samples=all"),
            Set("overrides=[{match: q, activations: {rule: cast}}]")});
  EXPECT_THAT(c.data.image.mean, ElementsAre(1, 2, 3));
  EXPECT_EQ(c.weights.rule, "mse");
  EXPECT_EQ(c.weights.granularity, Granularity::kTensor);
  EXPECT_EQ(c.keep.at(0).match, "a=b");
  EXPECT_EQ(LayerRules(c).Resolve(One("q")).activations.rule, "cast");
}

TEST_F(ConfigTest, LayersThatAreOneMatchWhatAnyOfThemMatches) {
  const QuantConfig c = Parse(R"(version: 1
keep: ['k_proj']
only: ['q_proj']
overrides:
  - {match: 'v_proj', weights: {rule: mse}}
)");
  const LayerRules rules(c);
  const std::vector<std::string> q_and_v = {"a.q_proj", "a.v_proj"};
  EXPECT_EQ(rules.KeptBecause(q_and_v), "");
  EXPECT_THAT(rules.KeptBecause(One("a.v_proj")), HasSubstr("only"));
  EXPECT_EQ(rules.Resolve(q_and_v).weights.rule, "mse");
  EXPECT_THAT(rules.KeptBecause(std::vector<std::string>{"a.q_proj", "a.k_proj"}),
              HasSubstr("matches keep 'k_proj'"));
  EXPECT_EQ(rules.PlaceOf("weights.rule", "a.v_proj"), "r.yaml:5:39");
  EXPECT_EQ(rules.PlaceOf("weights.rule", "a.q_proj"), "");
}

TEST_F(ConfigTest, ATargetBelongsToItsFormat) {
  // Whatever the order of the flags.
  for (const bool swapped : {false, true}) {
    std::vector<ConfigAssignment> flags = {Set("weights.target=100"), Set("weights.format=flat8")};
    if (swapped) std::swap(flags[0], flags[1]);
    EXPECT_EQ(Load("inference", {}, flags).weights.target, 100);
  }
  // A recipe's target for one format does not pass to another that a flag asks for.
  const std::string path = ::testing::TempDir() + "target.yaml";
  std::ofstream(path) << "version: 1\nweights: {target: 8}\n";
  EXPECT_EQ(Load(path, {}, {Set("weights.format=flat8")}).weights.target, 448);
  EXPECT_EQ(Load(path, {}, {Set("weights.format=tapered")}).weights.target, 8);
  EXPECT_EQ(Load(path, {}, {Set("weights.guard=10")}).weights.target, 32);
}

TEST_F(ConfigTest, OverridesApplyInOrder) {
  const QuantConfig c = Parse(R"(version: 1
weights: {target: 8}
overrides:
  - {match: 'mlp', weights: {rule: mse, format: flat8}, activations: {guard: 12}}
  - {match: 'mlp.down', weights: {format: tapered}}
  - {match: 'up$', optional: true, weights: {percentile: 98, rule: percentile}}
)");
  const LayerRules rules(c);
  EXPECT_EQ(rules.Resolve(One("attn")), (LayerConfig{c.weights, c.activations}));
  EXPECT_EQ(rules.Resolve(One("mlp.up")).weights.rule, "percentile");
  EXPECT_EQ(rules.Resolve(One("mlp.up")).weights.percentile, 98);
  EXPECT_EQ(rules.Resolve(One("mlp.up")).weights.target, 448);
  EXPECT_EQ(rules.Resolve(One("mlp.up")).activations.target, 8);
  // Naming a format without a target means the format's own target.
  EXPECT_EQ(rules.Resolve(One("mlp.down")).weights.format, "tapered");
  EXPECT_EQ(rules.Resolve(One("mlp.down")).weights.target, 16);
  EXPECT_EQ(rules.Resolve(One("mlp.down")).weights.rule, "mse");
}

TEST_F(ConfigTest, PatternsThatMatchNothingAreErrorsWithNearMatches) {
  const std::vector<std::string> layers = {"model.layers.0.mlp.up_proj",
                                           "model.layers.1.mlp.up_proj", "lm_head"};
  QuantConfig c = Parse("version: 1\nkeep: ['layers\\.9', lm_head]\nonly:\n  - upproj\n");
  const std::vector<Error> errors = LayerRules(c).Unmatched(layers);
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].message(), "keep 'layers\\.9' matches none of the model's 3 layers");
  EXPECT_EQ(errors[0].hint(), "near: layers.0, layers.1");
  EXPECT_EQ(errors[0].where(), "r.yaml:2:8");
  EXPECT_EQ(errors[1].hint(), "near: up_proj");
  EXPECT_EQ(errors[1].where(), "r.yaml:4:5");
  EXPECT_THROW(LayerRules(c).RequireMatches(layers), Error);
  c = Load("inference", {}, {{"keep", "zzzzzz", "--keep", Mode::kAppend}});
  EXPECT_EQ(LayerRules(c).Unmatched(layers).at(0).where(), "--keep");
  EXPECT_EQ(LayerRules(c).Unmatched(layers).at(0).hint(),
            "layers have names like model.layers.0.mlp.up_proj, model.layers.1.mlp.up_proj, "
            "lm_head");
  LayerRules(Parse("version: 1\nkeep: [lm_head]\n")).RequireMatches(layers);
  LayerRules(Parse("version: 1\nkeep: [{match: zzz, optional: true}]\n")).RequireMatches(layers);
}

TEST_F(ConfigTest, HighPrecisionBlocksAreTheFirstHalfRoundedUpAndTheLast) {
  std::vector<int> kept;
  for (int i = -1; i < 26; ++i) {
    if (IsHighPrecisionBlock(i, 26, 5)) kept.push_back(i);
  }
  EXPECT_THAT(kept, ElementsAre(0, 1, 2, 24, 25));
  EXPECT_FALSE(IsHighPrecisionBlock(0, 26, 0));
  EXPECT_TRUE(IsHighPrecisionBlock(0, 1, 2));
}

TEST_F(ConfigTest, ParamsForRulesComeFromOperandAndRecipe) {
  const QuantConfig c = Parse(
      "version: 1\nweights: {percentile: 97, power_of_two: true, scale_dtype: bf16, target: 3}\n"
      "mse: {steps_per_octave: 5, octaves: 1.5}\n");
  const ScaleParams p = MakeScaleParams(c.weights, c);
  EXPECT_EQ(p.target, 3);
  EXPECT_EQ(p.percentile, 97);
  EXPECT_TRUE(p.power_of_two);
  EXPECT_EQ(p.scale_dtype, ScaleDType::kBF16);
  EXPECT_EQ(p.mse.steps_per_octave, 5);
  EXPECT_EQ(p.mse.octaves, 1.5);
}

// A value for a key, drawn at random, as YAML; independent of how values are written.
std::string RandomValue(const Param& param, std::mt19937& random) {
  const auto number = [&](bool whole) {
    const double low = std::isfinite(param.min) ? param.min : -1000;
    const double high = std::min(param.max, low + 440);
    const double x = std::uniform_real_distribution<>(low, high)(random);
    std::ostringstream text;
    text.precision(17);
    text << (whole ? std::ceil(x) : x + (param.above_min ? 1e-9 : 0));
    return text.str();
  };
  const auto list = [&](bool whole) {
    return "[" + number(whole) + "," + number(whole) +
           (param.length == 3 ? "," + number(whole) : "") + "]";
  };
  static const std::vector<std::string> kPatterns = {"'it''s'", "\"tab\\t\\x01 \\\" \\\\d\"",
                                                     "a.*b", "{match: '[x]', optional: true}",
                                                     "'é\\d{2}'"};
  const size_t pick = random();
  switch (param.kind) {
    case ParamKind::kBool:
      return pick % 2 == 0 ? "true" : "false";
    case ParamKind::kInteger:
      return number(true);
    case ParamKind::kCountOrAll:
      return pick % 3 == 0 ? "all" : number(true);
    case ParamKind::kNumber:
      return number(false);
    case ParamKind::kChoice:
      return param.choices[pick % param.choices.size()];
    case ParamKind::kFormat:
      return pick % 2 == 0 ? "tapered" : "flat8";
    case ParamKind::kWeightRule:
      return pick % 2 == 0 ? "max" : "cast";
    case ParamKind::kActivationRule:
      return pick % 3 == 0 ? "max" : pick % 3 == 1 ? "cast" : "off";
    case ParamKind::kCacheRule:
      return pick % 2 == 0 ? "off" : "mse";
    case ParamKind::kPattern:
      return kPatterns[pick % 3];
    case ParamKind::kPatternList:
      return "[" + kPatterns[pick % 5] + ", " + kPatterns[pick / 7 % 5] + "]";
    case ParamKind::kIntegerList:
      return list(true);
    case ParamKind::kNumberList:
      return list(false);
  }
  return "";
}

std::string RandomRecipe(std::mt19937& random) {
  std::vector<ConfigAssignment> flags;
  std::string text = "version: 1\n";
  std::string overrides;
  std::map<std::string, std::string> groups;
  for (const Param& param : RecipeParams()) {
    if (param.input_only || random() % 3 == 0) continue;
    const std::string value = RandomValue(param, random);
    const size_t dot = param.key.rfind('.');
    if (dot == std::string::npos) {
      text += param.key + ": " + value + "\n";
    } else if (param.key.find('.') == dot) {
      groups[param.key.substr(0, dot)] += param.key.substr(dot + 1) + ": " + value + ", ";
    }
    if (param.key.starts_with("weights.") && random() % 4 == 0) {
      overrides += "  - match: 'o'\n    weights: {" + param.key.substr(8) + ": " + value + "}\n";
    }
  }
  for (const auto& [group, keys] : groups) text += group + ": {" + keys + "}\n";
  return text + (overrides.empty() ? "" : "overrides:\n" + overrides);
}

TEST_F(ConfigTest, TheResolvedRecipeReproducesItself) {
  std::mt19937 random(7);
  for (const BuiltInRecipe& recipe : BuiltInRecipes()) {
    // They name real formats.
    const ParseContext real{BuiltinFormats(), BuiltinCalibrators()};
    const QuantConfig c = LoadConfig(std::string(recipe.name), {}, {}, real);
    const QuantConfig again = ParseRecipe(WriteRecipe(c), "written", real);
    EXPECT_EQ(again, c) << recipe.name;
    EXPECT_EQ(WriteRecipe(again), WriteRecipe(c)) << recipe.name;
  }
  int differing = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string recipe = RandomRecipe(random);
    try {
      const QuantConfig c = Parse(recipe);
      differing += c == Load("inference") ? 0 : 1;
      const std::string text = WriteRecipe(c);
      EXPECT_EQ(Parse(text), c) << recipe << text;
      EXPECT_EQ(WriteRecipe(Parse(text)), text) << recipe;
    } catch (const Error& error) {  // token with another rule than max, target above 448
      EXPECT_THAT(error.message(), ::testing::AnyOf(HasSubstr("granularity token"),
                                                    HasSubstr("beyond the largest value")))
          << recipe;
    }
  }
  EXPECT_GT(differing, 200);
}

TEST_F(ConfigTest, TheCommentedRecipeHasEveryKeyAndParsesToTheDefaults) {
  const std::string text = WriteRecipe(Load("inference"), true);
  EXPECT_EQ(Parse(text), Load("inference"));
  for (const Param& param : RecipeParams()) {
    EXPECT_THAT(text, HasSubstr(param.help)) << param.key;
    EXPECT_THAT(text, HasSubstr(param.key.substr(param.key.rfind('.') + 1) + ":")) << param.key;
  }
}

TEST_F(ConfigTest, TheResolvedRecipeIsPlainYaml) {
  // Read back by the YAML library alone.
  const YAML::Node root = YAML::Load(WriteRecipe(
      Parse("version: 1\nkeep: [\"a'b\\n\"]\ndata: {image: {mean: [0.1, 1e-30, 3]}}\n")));
  EXPECT_EQ(root["keep"][0].as<std::string>(), "a'b\n");
  EXPECT_EQ(root["data"]["image"]["mean"][0].Scalar(), "0.1");
  EXPECT_EQ(root["data"]["image"]["mean"][1].Scalar(), "1e-30");
  EXPECT_EQ(root["data"]["samples"].Scalar(), "all");
  EXPECT_EQ(root["weights"]["target"].Scalar(), "16");
  EXPECT_EQ(root["version"].as<int>(), 1);
}

}  // namespace
}  // namespace hif8
