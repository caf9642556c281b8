// docs/recipes.md has the table of keys as the program knows them.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "lib/quant/config.h"
#include "lib/quant/config_params.h"
#include "tests/paths.h"

namespace hif8 {
namespace {

std::string Read(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(ConfigDocs, TheTableOfKeysIsUpToDate) {
  const ParseContext context{BuiltinFormats(), BuiltinCalibrators()};
  const std::string path = std::string(HIF8_SOURCE_DIR) + "/docs/recipes.md";
  const std::string docs = Read(path);
  const size_t start = docs.find("-->\n", docs.find("<!-- keys")) + 4;
  const size_t end = docs.find("<!-- end of keys -->");
  ASSERT_NE(end, std::string::npos);
  const std::string table = RecipeReference(context);
  if (docs.substr(start, end - start) == table) return;
  const std::string fresh = ::testing::TempDir() + "recipes.md";
  std::ofstream(fresh) << docs.substr(0, start) << table << docs.substr(end);
  ADD_FAILURE() << path << " is out of date; " << fresh << " is what it should be";
}

TEST(ConfigDocs, EveryBuiltInRecipeIsDescribedAndLoads) {
  const ParseContext context{BuiltinFormats(), BuiltinCalibrators()};
  const std::string docs = Read(std::string(HIF8_SOURCE_DIR) + "/docs/recipes.md");
  for (const BuiltInRecipe& recipe : BuiltInRecipes()) {
    EXPECT_NE(docs.find("| `" + std::string(recipe.name) + "` |"), std::string::npos);
    const QuantConfig config = LoadConfig(std::string(recipe.name), {}, {}, context);
    EXPECT_EQ(config.weights.format, "hif8");
    EXPECT_EQ(config.weights.target, recipe.name == "pangu-qat" ? 15 : 16);
  }
}

TEST(ConfigDocs, GuardMeansPowersOfTwoBelowTheLargestExponent) {
  const ParseContext context{BuiltinFormats(), BuiltinCalibrators()};
  for (const auto& [guard, target] : {std::pair{11, 16.0}, {12, 8.0}, {9, 64.0}}) {
    const std::string yaml = "version: 1\nweights: {guard: " + std::to_string(guard) + "}\n";
    EXPECT_EQ(ParseRecipe(yaml, "r", context).weights.target, target);
  }
  EXPECT_EQ(ParseRecipe("version: 1\nweights: {format: fp8_e4m3}\n", "r", context).weights.target,
            448);
}

}  // namespace
}  // namespace hif8
