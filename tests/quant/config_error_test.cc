// Recipes: every error says where, what was expected, what was found, and what to do; damaged input
// gives such an error and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "lib/core/error.h"
#include "lib/quant/config.h"
#include "tests/quant/config_fakes.h"

namespace hif8 {
namespace {

using ::testing::HasSubstr;

struct Case {
  const char* yaml;
  const char* where;
  const char* message;
  const char* hint;
};

std::vector<Error> ErrorsOf(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    std::vector<Error> all = {error};
    for (const Error& other : error.others()) all.push_back(other);
    return all;
  }
  return {};
}

class ConfigErrorTest : public ::testing::Test {
 protected:
  std::vector<Error> Parse(const std::string& yaml) {
    return ErrorsOf([&] { ParseRecipe(yaml, "r.yaml", fakes_.context); });
  }
  std::vector<Error> Load(const std::string& name, const std::vector<ConfigAssignment>& flags) {
    return ErrorsOf([&] { LoadConfig(name, {}, flags, fakes_.context); });
  }
  testing::FakeRegistries fakes_;
};

const Case kCases[] = {
    {"", "r.yaml:1:1", "the key 'version' is missing", "version: 1"},
    {"weights: {rule: max}\n", "r.yaml:1:1", "the key 'version' is missing", "version: 1"},
    {"version: 2\n", "r.yaml:1:10", "version: expected 1, found '2'", "version 1"},
    {"version: '1'\n", "r.yaml:1:10", "version: expected 1", ""},
    {"[1, 2]\n", "r.yaml:1:1", "expected a mapping of recipe keys, found a list", "version: 1"},
    {"version: 1\n---\na: 1\n", "r.yaml:2:1", "a second YAML document", "---"},
    {"version: 1\nkeep: [a\n", "r.yaml:3:1", "not valid YAML", "brackets"},
    {"version: 1\nkeep: 'a'b\n", "r.yaml:2:10", "not valid YAML", "quotes"},
    {",version: 1\n", "r.yaml:1:1", "text outside of any", "does not belong"},
    {"version: 1\n\tkeep: []\n", "r.yaml:2:1", "not valid YAML", ""},
    {"version: 1\nkeep: *a\n", "r.yaml:2:7", "not valid YAML", ""},
    {"version: 1\nweigths: {}\n", "r.yaml:2:1", "unknown key 'weigths'", "did you mean 'weights'?"},
    {"version: 1\nweights:\n  rul: max\n", "r.yaml:3:3", "unknown key 'weights.rul'",
     "did you mean 'weights.rule'?"},
    {"version: 1\nscale_dtype: bf16\n", "r.yaml:2:1", "unknown key 'scale_dtype'",
     "did you mean 'weights.scale_dtype'?"},
    {"version: 1\ndata: {image: {sise: [1, 2]}}\n", "r.yaml:2:16", "unknown key 'data.image.sise'",
     "did you mean 'data.image.size'?"},
    {"version: 1\nzzzzzzzz: 1\n", "r.yaml:2:1", "unknown key 'zzzzzzzz'", "known: version"},
    {"version: 1\nkv_cache: {clip: true}\n", "r.yaml:2:12", "unknown key 'kv_cache.clip'",
     "did you mean 'activations.clip'?"},
    {"version: 1\n? [a]\n: 1\n", "r.yaml:2:3", "a key must be text, found a list", ""},
    {"version: 1\nkeep: []\nkeep: []\n", "r.yaml:3:1", "'keep' stands here a second time",
     "keep one"},
    {"version: 1\nweights: {rule: max, rule: mse}\n", "r.yaml:2:22", "a second time", ""},
    {"version: 1\nweights: hif8\n", "r.yaml:2:10", "weights: expected a mapping, found 'hif8'",
     "its keys: format, granularity, rule"},
    {"version: 1\nweights: {rule: [max]}\n", "r.yaml:2:17",
     "weights.rule: expected a scale rule, found a list", ""},
    {"version: 1\nweights: {rule: mxa}\n", "r.yaml:2:17",
     "weights.rule: expected a scale rule, found 'mxa'", "did you mean 'max'?"},
    {"version: 1\nweights: {rule: ema}\n", "r.yaml:2:17", "found 'ema'",
     "known: max, percentile, mse, cast"},
    {"version: 1\nweights: {rule: }\n", "r.yaml:2:17",
     "weights.rule: expected a scale rule, found nothing", ""},
    {"version: 1\nactivations: {format: taperd}\n", "r.yaml:2:23",
     "activations.format: expected a number format, found 'taperd'", "did you mean 'tapered'?"},
    {"version: 1\nweights: {granularity: token}\n", "r.yaml:2:24",
     "expected one of tensor, channel, block, group, found 'token'", "known: tensor"},
    {"version: 1\nactivations: {granularity: chanel}\n", "r.yaml:2:28", "found 'chanel'", "known"},
    {"version: 1\nkv_cache: {rule: on}\n", "r.yaml:2:18", "one of off, max, percentile, mse", ""},
    {"version: 1\nattention: yes\n", "r.yaml:2:12",
     "attention: expected true or false, found 'yes'", ""},
    {"version: 1\nattention: 'true'\n", "r.yaml:2:12", "expected true or false", ""},
    {"version: 1\nweights: {target: 0}\n", "r.yaml:2:19",
     "weights.target: expected a number above 0, found '0'", ""},
    {"version: 1\nweights: {target: .inf}\n", "r.yaml:2:19", "found '.inf'", ""},
    {"version: 1\nweights: {target: nan}\n", "r.yaml:2:19", "found 'nan'", ""},
    {"version: 1\nweights: {target: 1e40}\n", "r.yaml:2:19", "found '1e40'", ""},
    {"version: 1\nweights: {target: 12x}\n", "r.yaml:2:19", "found '12x'", ""},
    {"version: 1\nweights: {target: '8'}\n", "r.yaml:2:19", "expected a number", ""},
    {"version: 1\nweights: {target: 40000}\n", "r.yaml:2:19",
     "a target of 40000 is beyond the largest value of 'tapered', 32768", "16"},
    {"version: 1\nweights: {percentile: 100.5}\n", "r.yaml:2:23",
     "expected a number above 0, at most 100, found '100.5'", ""},
    {"version: 1\nweights: {guard: 1.5}\n", "r.yaml:2:18", "expected an integer from 0 to 30", ""},
    {"version: 1\nweights: {guard: 11, target: 16}\n", "r.yaml:2:18",
     "weights: both target and guard are given", "keep one"},
    {"version: 1\nweights: {format: flat8, guard: 11}\n", "r.yaml:2:33",
     "guard: the format 'flat8' has no room above its target", "target"},
    {"version: 1\ndelayed: {history: 0}\n", "r.yaml:2:20", "an integer from 1 to 1000000", ""},
    {"version: 1\ndelayed: {alpha: 0}\n", "r.yaml:2:18", "above 0, at most 1", ""},
    {"version: 1\ndelayed: {rule: latest}\n", "r.yaml:2:17", "most_recent, exp_smooth", "known"},
    {"version: 1\nhigh_precision_layers: -1\n", "r.yaml:2:24", "found '-1'", ""},
    {"version: 1\ndata: {samples: 0}\n", "r.yaml:2:17",
     "data.samples: expected an integer of at least 1, or all, found '0'", ""},
    {"version: 1\ndata: {samples: some}\n", "r.yaml:2:17", "or all, found 'some'", ""},
    {"version: 1\ndata: {image: {size: 224}}\n", "r.yaml:2:22",
     "data.image.size: expected a list of 2: an integer from 1 to 65536, found '224'", ""},
    {"version: 1\ndata: {image: {size: [1, 2, 3]}}\n", "r.yaml:2:22", "a list of 2", ""},
    {"version: 1\ndata: {image: {std: [1, 0, 1]}}\n", "r.yaml:2:25", "above 0, found '0'", ""},
    {"version: 1\nkeep: head\n", "r.yaml:2:7",
     "keep: expected a list of regular expressions, found 'head'", ""},
    {"version: 1\nkeep: ['a(b']\n", "r.yaml:2:8", "'a(b' is not a regular expression", "backslash"},
    {"version: 1\nblocks: '[a'\n", "r.yaml:2:9", "is not a regular expression", ""},
    {"version: 1\nkeep: ['']\n", "r.yaml:2:8", "an empty regular expression", "every layer"},
    {"version: 1\nkeep: [[a]]\n", "r.yaml:2:8", "expected a regular expression, found a list", ""},
    {"version: 1\nonly: [{optional: true}]\n", "r.yaml:2:8", "an entry without 'match'", ""},
    {"version: 1\nonly: [{match: a, needed: 1}]\n", "r.yaml:2:19", "unknown key 'needed'",
     "match, optional"},
    {"version: 1\nonly: [{match: a, optional: 1}]\n", "r.yaml:2:29",
     "only.optional: expected true or false", ""},
    {"version: 1\noverrides: {}\n", "r.yaml:2:12", "overrides: expected a list, found a mapping",
     "match"},
    {"version: 1\noverrides: [a]\n", "r.yaml:2:13", "an override must be a mapping, found 'a'", ""},
    {"version: 1\noverrides:\n  - weights: {rule: mse}\n", "r.yaml:3:5",
     "an override without 'match'", "match: "},
    {"version: 1\noverrides:\n  - {match: a, weigts: {}}\n", "r.yaml:3:16",
     "unknown key 'weigts' in an override", "did you mean 'weights'?"},
    {"version: 1\noverrides:\n  - {match: a, weights: {rul: max}}\n", "r.yaml:3:26",
     "unknown key 'weights.rul'", "weights.rule"},
    {"version: 1\noverrides:\n  - {match: a, match: b}\n", "r.yaml:3:16", "a second time", ""},
    {"version: 1\noverrides:\n  - {match: 'a(', weights: {}}\n", "r.yaml:3:13",
     "is not a regular expression", ""},
    {"version: 1\noverrides:\n  - {match: a, weights: {guard: 1, target: 2}}\n",
     "r.yaml:3:", "both target and guard", ""},
    {"version: 1\noverrides:\n  - {match: a, weights: {format: flat8, target: 500}}\n",
     "r.yaml:3:49", "a target of 500 is beyond the largest value of 'flat8', 448", ""},
    {"version: 1\nactivations:\n  granularity: token\n  rule: mse\n", "r.yaml:4:9",
     "rule 'mse' with granularity token", "rule max"},
};

TEST_F(ConfigErrorTest, EveryErrorTellsWhereAndWhat) {
  for (const Case& c : kCases) {
    const std::vector<Error> errors = Parse(c.yaml);
    ASSERT_EQ(errors.size(), 1u) << c.yaml;
    EXPECT_THAT(errors[0].where(), ::testing::StartsWith(c.where)) << c.yaml;
    EXPECT_THAT(errors[0].message(), HasSubstr(c.message)) << c.yaml;
    EXPECT_THAT(errors[0].hint(), HasSubstr(c.hint)) << c.yaml;
  }
}

TEST_F(ConfigErrorTest, AllErrorsAtOnceButAtMostTwenty) {
  std::vector<Error> errors = Parse("version: 3\nwheights: 1\nweights: {target: x, rule: y}\n");
  ASSERT_EQ(errors.size(), 4u);
  EXPECT_EQ(errors[1].where(), "r.yaml:2:1");
  EXPECT_EQ(errors[2].where(), "r.yaml:3:19");
  EXPECT_EQ(errors[3].where(), "r.yaml:3:28");
  std::string many = "version: 1\n";
  for (int i = 0; i < 50; ++i) many += "k" + std::to_string(i) + ": 1\n";
  EXPECT_EQ(Parse(many).size(), 20u);
}

TEST_F(ConfigErrorTest, FlagsNameTheirOption) {
  std::vector<Error> errors = Load("inference", {ParseSetOption("weights.rul=mse")});
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].where(), "--set weights.rul=mse");
  EXPECT_EQ(errors[0].hint(), "did you mean 'weights.rule'?");
  errors = Load("inference", {ParseSetOption("weights.target=abc"),
                              ParseSetOption("keep=[a"),
                              {"weights.rule", "mxa", "--weight-scale"},
                              {"keep", "a(", "--keep", ConfigAssignment::Mode::kAppend}});
  ASSERT_EQ(errors.size(), 4u);
  EXPECT_EQ(errors[0].where(), "--set weights.target=abc");
  EXPECT_EQ(errors[1].where(), "--set keep=[a");
  EXPECT_EQ(errors[2].where(), "--weight-scale");
  EXPECT_EQ(errors[3].where(), "--keep");
  errors = Load("inference", {ParseSetOption("target=4")});
  EXPECT_EQ(errors.at(0).hint(), "did you mean 'weights.target'?");
  EXPECT_EQ(ErrorsOf([] { ParseSetOption("weights.rule"); }).at(0).message(),
            "--set needs key=value, found 'weights.rule'");
  EXPECT_EQ(ErrorsOf([] { ParseSetOption("=1"); }).size(), 1u);
}

TEST_F(ConfigErrorTest, UnknownRecipesListTheBuiltInOnes) {
  std::vector<Error> errors = Load("inferense", {});
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].message(), "no recipe 'inferense': neither a built-in one nor a file");
  EXPECT_EQ(
      errors[0].hint(),
      "did you mean 'inference'? built-in: inference, cast, weight-only, pangu-qat, kv-cache, "
      "w4a8-moe, w4a4-moe");
  EXPECT_EQ(Load("/nonexistent/r.yaml", {}).at(0).hint(),
            "built-in: inference, cast, weight-only, pangu-qat, kv-cache, w4a8-moe, w4a4-moe");
  EXPECT_THAT(Load(::testing::TempDir(), {}).at(0).message(), HasSubstr("directory"));
  const std::string path = ::testing::TempDir() + "bad_recipe.yaml";
  std::ofstream(path) << "version: 1\nkeep: 3\n";
  EXPECT_EQ(Load(path, {}).at(0).where(), path + ":2:7");
}

TEST_F(ConfigErrorTest, VeryLongAndVeryDeepInput) {
  EXPECT_THAT(Parse("version: 1\n#" + std::string(2 << 20, 'x')).at(0).message(),
              HasSubstr("bytes"));
  EXPECT_EQ(Parse("version: 1\nkeep: " + std::string(20000, '[') + "\n").size(), 1u);
  EXPECT_EQ(Parse("version: 1\n" + std::string(5000, 'k') + ": 1\n").size(), 1u);
  EXPECT_LT(Parse("version: 1\n" + std::string(5000, 'k') + ": 1\n").at(0).message().size(), 200u);
}

TEST_F(ConfigErrorTest, RandomDamageGivesAnErrorOrARecipe) {
  std::mt19937 random(11);
  std::vector<std::string> seeds = {
      WriteRecipe(ParseRecipe("version: 1", "d", fakes_.context)),
      WriteRecipe(ParseRecipe("version: 1", "d", fakes_.context), true)};
  for (const BuiltInRecipe& recipe : BuiltInRecipes()) seeds.emplace_back(recipe.text);
  for (const Case& c : kCases) seeds.emplace_back(c.yaml);
  const std::string alphabet = ":{}[]-,'\"#&*!|>%@`\n\t ?~0.\\x\xff\x01<";
  int errors = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string text = seeds[random() % seeds.size()];
    for (unsigned edits = random() % 4 + 1; edits > 0; --edits) {
      const size_t at = text.empty() ? 0 : random() % text.size();
      const char c = alphabet[random() % alphabet.size()];
      switch (random() % 4) {
        case 0:
          text.insert(at, 1, c);
          break;
        case 1:
          if (!text.empty()) text[at] = c;
          break;
        case 2:
          text.erase(at, random() % 8);
          break;
        default:
          text.insert(at, seeds[random() % seeds.size()].substr(0, random() % 30));
      }
    }
    try {
      const QuantConfig config = ParseRecipe(text, "r.yaml", fakes_.context);
      EXPECT_EQ(ParseRecipe(WriteRecipe(config), "w", fakes_.context), config) << text;
    } catch (const Error& error) {
      ++errors;
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_FALSE(error.message().empty());
      EXPECT_THAT(error.where(), ::testing::StartsWith("r.yaml:")) << text;
    }
  }
  EXPECT_GT(errors, 2000);
}

}  // namespace
}  // namespace hif8
