// Descriptions of model families: the language of values, the strict reader, what comes of them.
#include "lib/model/safetensors/description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "lib/core/error.h"
#include "lib/model/safetensors/architecture.h"

namespace hif8 {
namespace {

using ::testing::HasSubstr;

ConfigValue Evaluate(const std::string& text, const std::string& json, int64_t blocks = 6) {
  const ModelConfig config = ModelConfig::Parse(json, "config.json");
  ExpressionScope scope;
  scope.config = [&](std::string_view key) { return config.Value(key); };
  scope.is_key = [](std::string_view word) { return word == "known.key"; };
  scope.key = [](std::string_view) { return ConfigValue(7.0); };
  scope.blocks = blocks;
  return Expression::Parse(text, "test:1:1").Evaluate(scope);
}

double Number(const std::string& text, const std::string& json = "{}") {
  return std::get<double>(Evaluate(text, json).items.at(0));
}

std::string Flags(const std::string& text, const std::string& json = "{}") {
  std::string flags;
  for (const auto& item : Evaluate(text, json).items)
    flags += std::get<double>(item) != 0 ? '1' : '0';
  return flags;
}

TEST(ExpressionTest, NumbersAndKeys) {
  EXPECT_EQ(Number("1e-6"), 1e-6);
  EXPECT_EQ(Number("1 + 2 * 3"), 7);
  EXPECT_EQ(Number("(1 + 2) * 3 / 2"), 4.5);
  EXPECT_EQ(Number("1 / sqrt(16)"), 0.25);
  EXPECT_EQ(Number("known.key * 2"), 14);
  EXPECT_EQ(Number("$a", R"({"a": 5})"), 5);
  EXPECT_EQ(Number("$a.b", R"({"a": {"b": true}})"), 1);
  EXPECT_EQ(Number("$a | $b | 9", R"({"a": null, "b": 0})"), 0);
  EXPECT_EQ(Number("$a * 2 | 9", R"({"b": 1})"), 9);
  EXPECT_EQ(Number("if($a, 1, 2)", R"({"a": 4})"), 1);
  EXPECT_EQ(Number("if($a, 1, 2)", R"({"a": false})"), 2);
  EXPECT_EQ(Number("if($a, 1, 2)"), 2);
  EXPECT_TRUE(Evaluate("sqrt($a)", "{}").missing());
}

TEST(ExpressionTest, ListsOverBlocks) {
  EXPECT_EQ(Flags("every(3, 1, 0)"), "001001");
  EXPECT_EQ(Flags("first(3, 1, 0)"), "100100");
  EXPECT_EQ(Flags("before($n, 0, 1)", R"({"n": 2})"), "001111");
  EXPECT_EQ(Flags("at($l)", R"({"l": [1, 5, 9]})"), "010001");
  EXPECT_EQ(Flags("every(2, 1, 0) * not(at($l))", R"({"l": [1]})"), "000101");
  EXPECT_EQ(Flags("equals($l, x, y)", R"({"l": ["x", "z", "y"]})"), "101");
  EXPECT_EQ(Flags("equals(choose($l, a, b), b)", R"({"l": [1, 0, 1]})"), "101");
  // An empty list is as good as none.
  EXPECT_EQ(Flags("at($l) | every(2, 1, 0)", R"({"l": []})"), "010101");
}

TEST(ExpressionTest, MistakesAreTold) {
  for (const auto& [text, says] : std::vector<std::pair<std::string, std::string>>{
           {"sqr(4)", "no function 'sqr'"},
           {"every(1, 2)", "every() takes 3"},
           {"(1 + 2", "closing bracket"},
           {"1 +", "missing at the end"},
           {"1 2", "left over"},
           {"$", "missing"},
           {std::string(40, '(') + "1" + std::string(40, ')'), "too many brackets"}}) {
    try {
      Expression::Parse(text, "own.yaml:3:7");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_THAT(error.message(), HasSubstr(says)) << text;
      EXPECT_EQ(error.where(), "own.yaml:3:7");
      EXPECT_NE(error.hint(), "");
    }
  }
  EXPECT_THROW(Evaluate("head_dim * 2", "{}"), Error);  // a word, where $head_dim was meant
  EXPECT_THROW(Evaluate("$l * at($l)", R"({"l": [1, 2]})"), Error);
}

std::vector<std::string> Problems(const std::string& yaml) {
  try {
    ParseDescription(yaml, "own.yaml");
  } catch (const Error& error) {
    std::vector<std::string> all = {error.where() + " " + error.message() + " | " + error.hint()};
    for (const Error& other : error.others()) {
      all.push_back(other.where() + " " + other.message() + " | " + other.hint());
    }
    return all;
  }
  return {};
}

TEST(DescriptionTest, EveryMistakeHasItsPlaceAndASuggestion) {
  const auto problems = Problems(
      "version: 1\nmodel_types: [x]\natention:\n  heads: 4\nnorm:\n  typ: rms\n  type: rmss\n"
      "rope:\n  theta: sqr(2)\nmlp: 3\nhead:\n  tied: [1]\n");
  ASSERT_EQ(problems.size(), 6u);
  EXPECT_THAT(problems[0],
              HasSubstr("own.yaml:3:1 unknown key 'atention' | did you mean 'attention'"));
  EXPECT_THAT(problems[1], HasSubstr("own.yaml:6:3 unknown key 'norm.typ' | did you mean 'type'"));
  EXPECT_THAT(problems[2], HasSubstr("own.yaml:7:9 norm.type: expected one of rms"));
  EXPECT_THAT(problems[3], HasSubstr("own.yaml:9:10"));
  EXPECT_THAT(problems[4], HasSubstr("mlp: expected a mapping"));
  EXPECT_THAT(problems[5], HasSubstr("head.tied: expected true or false"));
  EXPECT_THAT(Problems("model_types: [x]\n").at(0), HasSubstr("'version' is missing"));
  EXPECT_THAT(Problems("version: 1\n").at(0), HasSubstr("'model_types' is missing"));
  EXPECT_THAT(Problems("version: 2\nmodel_types: [x]\n").at(0), HasSubstr("expected 1, found '2'"));
  EXPECT_THAT(Problems("version: 1\nversion: 1\nmodel_types: [x]\n").at(0),
              HasSubstr("a second time"));
  EXPECT_THAT(Problems("[1, 2]").at(0), HasSubstr("expected a mapping"));
  EXPECT_THAT(Problems("version: 1\n---\nversion: 1\n").at(0),
              HasSubstr("a description is one document"));
}

TEST(DescriptionTest, TheBuiltInOnesAreReadAndTheirTypesDiffer) {
  std::set<std::string> types;
  for (const Description& description : BuiltinDescriptions()) {
    for (const std::string& type : description.model_types) {
      EXPECT_TRUE(types.insert(type).second) << type;
      EXPECT_EQ(FindDescription(ModelConfig::Parse(R"({"model_type": ")" + type + "\"}", "c")),
                &description);
    }
  }
  EXPECT_GE(types.size(), 29u);
  EXPECT_EQ(FindDescription(ModelConfig::Parse(R"({"model_type": "x"})", "c")), nullptr);
}

constexpr const char* kSizes =
    R"("hidden_size": 8, "intermediate_size": 16, "vocab_size": 32, "num_hidden_layers": 2,
       "num_attention_heads": 2)";

std::string SpecProblem(const std::string& description, const std::string& json) {
  try {
    MakeDecoderSpec(ParseDescription("version: 1\nmodel_types: [x]\n" + description, "own.yaml"),
                    ModelConfig::Parse("{" + std::string(kSizes) + json + "}", "config.json"));
  } catch (const Error& error) {
    EXPECT_NE(error.hint(), "") << error.message();
    return error.message();
  }
  return {};
}

TEST(DescriptionTest, WhatConfigJsonLacksOrContradictsIsTold) {
  EXPECT_EQ(SpecProblem("", ""), "");
  EXPECT_THAT(SpecProblem("", R"(, "num_key_value_heads": "two")"), HasSubstr("found 'two'"));
  EXPECT_THAT(SpecProblem("experts:\n  count: $n\n", ""), HasSubstr("experts.count ($n)"));
  EXPECT_THAT(SpecProblem("experts:\n  count: 4\n", R"(, "num_experts_per_tok": 9)"),
              HasSubstr("this cannot be"));
  EXPECT_THAT(SpecProblem("layer_types: layer_types\n", ""), HasSubstr("refers to itself"));
  EXPECT_THAT(SpecProblem("rope:\n  layers: $l\n", R"(, "l": [1, 1, 0])"),
              HasSubstr("an entry for each of 2 blocks"));
  EXPECT_THAT(SpecProblem("rope:\n  dim: 3\n", ""), HasSubstr("an even number up to 4"));
  EXPECT_THAT(SpecProblem("attention:\n  head_dim: 3 / 2\n", ""), HasSubstr("1.5"));
}

TEST(DescriptionTest, ValuesOfOneBlockOrAnother) {
  const DecoderSpec spec = MakeDecoderSpec(
      ParseDescription("version: 1\nmodel_types: [x]\nconfig: inner\n"
                       "layer_types: every(2, full_attention, sliding_attention)\n"
                       "attention:\n  window: $sliding_window\n"
                       "rope:\n  local_layers: equals(layer_types, sliding_attention)\n"
                       "  local_theta: 100\n",
                       "own.yaml"),
      ModelConfig::Parse("{\"tie_word_embeddings\": true, \"inner\": {" + std::string(kSizes) +
                             R"(, "sliding_window": 5, "rope_parameters": {"rope_theta": 1e4}}})",
                         "config.json"));
  EXPECT_EQ(spec.At(0).mask, (MaskSpec{5, 0}));
  EXPECT_EQ(spec.At(1).mask, (MaskSpec{0, 0}));
  EXPECT_TRUE(spec.At(0).local_rope);
  EXPECT_TRUE(spec.head.tied);  // beside the object, too
  EXPECT_DOUBLE_EQ(spec.rope.frequencies.at(1), 0.01);
  EXPECT_DOUBLE_EQ(spec.local_rope.frequencies.at(1), 0.1);
}

}  // namespace
}  // namespace hif8
