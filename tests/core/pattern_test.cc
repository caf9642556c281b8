#include "lib/core/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lib/core/error.h"

namespace hif8 {
namespace {

using testing::HasSubstr;

TEST(Pattern, AnExplodingPatternIsAnErrorNotNoMatch) {
  const Pattern pattern("^(a+)+$", "recipe.yaml:3:5");
  const std::string name(40, 'a');
  EXPECT_TRUE(pattern.Matches(name));
  try {
    pattern.Matches(name + "!");
    FAIL() << "taken for no match";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.message(), HasSubstr("'^(a+)+$'"));
    EXPECT_THAT(error.message(), HasSubstr(name + "!"));
    EXPECT_EQ(error.where(), "recipe.yaml:3:5");
    EXPECT_FALSE(error.hint().empty());
  }
  EXPECT_THROW(pattern.FirstGroup(name + "!"), Error);
}

// Each of these names alone takes about 2^17 steps, far from PCRE2's own limit.
TEST(Pattern, TheBudgetIsForAllNamesTogether) {
  const Pattern pattern("^(a+)+$");
  int done = 0;
  try {
    for (; done < 100'000; ++done) pattern.Matches(std::string(15, 'a') + std::to_string(done));
    FAIL() << "100,000 names of 2^15 steps and more each were matched";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("takes too long"));
  }
  EXPECT_GT(done, 10);
  EXPECT_LT(done, 2000);
}

TEST(Pattern, ManyUsualNamesStayWithinTheBudget) {
  const Pattern pattern(R"(\.(q|k|v)_proj$)");
  int found = 0;
  for (int i = 0; i < 100'000; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".self_attn.";
    found += pattern.Matches(layer + (i % 2 == 0 ? "k_proj" : "o_proj")) ? 1 : 0;
  }
  EXPECT_EQ(found, 50'000);
}

TEST(Pattern, FirstGroup) {
  const Pattern pattern(R"(^(.*layers\.\d+)\.|^x)");
  EXPECT_EQ(pattern.FirstGroup("a.layers.12.b"), "a.layers.12");
  EXPECT_EQ(pattern.FirstGroup("x"), std::nullopt);
  EXPECT_EQ(pattern.FirstGroup("y"), std::nullopt);
}

}  // namespace
}  // namespace hif8
