#include "lib/quant/auto_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "lib/core/pattern.h"

namespace hif8 {
namespace {

using testing::ElementsAre;

// A network whose layers add independent noise to an output of energy 1; on the first samples it
// looks a little different.
class NoiseNetwork {
 public:
  explicit NoiseNetwork(std::vector<double> noise) : noise_(std::move(noise)) {}

  double Sqnr(const LayerSet& quantized, uint64_t samples = 0) const {
    double noise = floor_;
    for (size_t i = 0; i < noise_.size(); ++i) {
      if (!quantized[i]) continue;
      noise += samples == 0 || estimate_.empty() ? noise_[i] : estimate_[i];
    }
    return -10 * std::log10(noise);
  }
  double Plain() const { return Sqnr(LayerSet(noise_.size(), true)); }
  double Keeping(std::initializer_list<int> kept) const {
    LayerSet layers(noise_.size(), true);
    for (const int layer : kept) layers[static_cast<size_t>(layer)] = false;
    return Sqnr(layers);
  }

  AutoResult Choose(double goal_db, uint64_t samples = 100) {
    AutoGoal goal{"", true, nullptr, [goal_db](double v) { return v >= goal_db; }};
    return ChooseKeptLayers(LayerSet(noise_.size(), true), modules_, Plain(), samples, goal,
                            [this](std::span<const LayerSet> sets, uint64_t some) {
                              std::vector<double> values;
                              for (const LayerSet& set : sets) {
                                values.push_back(Sqnr(set, some));
                                ++(some == 0 ? full_ : estimated_);
                              }
                              return values;
                            });
  }

  std::vector<double> noise_;
  std::vector<double> estimate_;  // on the first samples; empty: the same
  double floor_ = 0;              // that nothing takes away
  std::vector<std::vector<size_t>> modules_;
  int full_ = 0, estimated_ = 0;
};

std::vector<int> Kept(const AutoResult& result) {
  std::vector<int> layers;
  for (const KeptLayer& kept : result.kept) layers.push_back(kept.layer);
  return layers;
}

TEST(AutoPrecision, NothingIsKeptOrTriedWhenThePlainResultMeetsTheGoal) {
  NoiseNetwork network({0.1, 0.2});
  const AutoResult result = network.Choose(5);
  EXPECT_TRUE(result.met);
  EXPECT_TRUE(result.kept.empty());
  EXPECT_EQ(network.full_ + network.estimated_, 0);
  EXPECT_DOUBLE_EQ(result.plain, network.Plain());
}

TEST(AutoPrecision, KeepsTheFewestLayersOfAdditiveNoise) {
  NoiseNetwork network({0.001, 0.004, 0.0005, 0.03, 0.0002, 0.01, 0.002});
  // Without 3 and 5 the rest is 0.0077, 21.1 dB; without 3 alone 0.0177, 17.5 dB.
  const AutoResult result = network.Choose(21);
  EXPECT_TRUE(result.met);
  ASSERT_THAT(Kept(result), ElementsAre(3, 5));
  EXPECT_DOUBLE_EQ(result.kept[0].before, network.Plain());
  EXPECT_DOUBLE_EQ(result.kept[0].after, network.Keeping({3}));
  EXPECT_DOUBLE_EQ(result.kept[0].without, network.Keeping({5}));
  EXPECT_DOUBLE_EQ(result.kept[1].before, network.Keeping({3}));
  EXPECT_DOUBLE_EQ(result.kept[1].after, network.Keeping({3, 5}));
  EXPECT_DOUBLE_EQ(result.kept[1].without, network.Keeping({3}));
  std::vector<int> ranking;
  for (const LayerSensitivity& entry : result.ranking) ranking.push_back(entry.layer);
  EXPECT_THAT(ranking, ElementsAre(3, 5, 1, 6, 0, 2, 4));
  EXPECT_DOUBLE_EQ(result.ranking[0].alone, -10 * std::log10(0.03));
  EXPECT_EQ(network.estimated_, 7) << "every layer once on the first samples";
}

TEST(AutoPrecision, LayersOfOneModuleAreKeptTogether) {
  // 1 and 4 alone are less than 3; together they are more, and 4 alone is never tried.
  NoiseNetwork network({0.001, 0.02, 0.0005, 0.03, 0.015});
  network.modules_ = {{1, 4}};
  const AutoResult result = network.Choose(15);
  EXPECT_TRUE(result.met);
  EXPECT_THAT(Kept(result), ElementsAre(1));
  EXPECT_DOUBLE_EQ(result.kept[0].after, network.Keeping({1, 4}));
  EXPECT_DOUBLE_EQ(result.ranking[0].alone, -10 * std::log10(0.035));
  EXPECT_EQ(result.ranking.size(), 4u);
}

TEST(AutoPrecision, AWrongEstimateIsPutRightOnAllData) {
  NoiseNetwork network({0.001, 0.02, 0.0005, 0.03, 0.0002});
  network.estimate_ = {0.025, 0.02, 0.0005, 0.024, 0.0002};  // 0 looks worst, 3 better than it is
  const AutoResult result = network.Choose(27);
  EXPECT_TRUE(result.met);
  EXPECT_THAT(Kept(result), ElementsAre(3, 1));
  EXPECT_TRUE(result.ranking[0].confirmed);
  EXPECT_DOUBLE_EQ(result.ranking[0].alone, -10 * std::log10(0.03));
}

TEST(AutoPrecision, OutOfReachGivesTheBestThatWasTried) {
  NoiseNetwork network({0.001, 0.02, 0.0005});
  network.floor_ = 0.01;
  const AutoResult result = network.Choose(30);
  EXPECT_FALSE(result.met);
  EXPECT_THAT(Kept(result), ElementsAre(1, 0)) << "one layer stays quantized";
  EXPECT_DOUBLE_EQ(result.kept.back().after, network.Keeping({0, 1}));
  EXPECT_TRUE(std::isnan(result.kept[0].without));
}

TEST(AutoPrecision, OneLayerCannotBeKept) {
  NoiseNetwork network({0.1});
  const AutoResult result = network.Choose(30);
  EXPECT_FALSE(result.met);
  EXPECT_TRUE(result.kept.empty());
}

TEST(AutoPrecision, LayersThatOthersMakeUnnecessaryAreGivenBack) {
  // 0 does most alone, yet once 1 and 2 are kept nothing is left of it: it only matters with them.
  const LayerSet all(4, true);
  AutoGoal goal{"", false, nullptr, [](double v) { return v <= 1; }};
  const auto loss = [](const LayerSet& q) {
    const bool alone = q[0] && !q[1] && !q[2] && !q[3];
    return (alone ? 9.0 : 0.0) + (q[1] ? 5.0 : 0.0) + (q[2] ? 4.0 : 0.0) + (q[3] ? 1.0 : 0.0);
  };
  const AutoResult result =
      ChooseKeptLayers(all, {}, loss(all), 4, goal, [&](std::span<const LayerSet> sets, uint64_t) {
        std::vector<double> values;
        for (const LayerSet& set : sets) values.push_back(loss(set));
        return values;
      });
  EXPECT_TRUE(result.met);
  EXPECT_EQ(result.ranking[0].layer, 0);
  EXPECT_THAT(Kept(result), ElementsAre(1, 2));
}

TEST(AutoPrecision, LayersThatTheRecipeKeepsAreNotTried) {
  AutoGoal goal{"", true, nullptr, [](double v) { return v >= 2; }};
  const LayerSet layers = {true, false, true, true};
  const AutoResult result =
      ChooseKeptLayers(layers, {}, 0, 4, goal, [&](std::span<const LayerSet> sets, uint64_t) {
        std::vector<double> values;
        for (const LayerSet& set : sets) {
          EXPECT_FALSE(set[1]);
          values.push_back(3.0 - static_cast<double>(std::count(set.begin(), set.end(), true)));
        }
        return values;
      });
  EXPECT_EQ(result.ranking.size(), 3u);
  EXPECT_EQ(result.kept.size(), 2u);
}

TEST(AutoPrecision, AnExactPatternMatchesThatNameOnly) {
  for (const std::string name : {"model.layers.1.q", "a/b:0", "x+y(z)[0]{2}\\w$^|", "Größe#1 a"}) {
    const Pattern pattern(ExactPattern(name));
    EXPECT_TRUE(pattern.Matches(name)) << pattern.text();
    EXPECT_FALSE(pattern.Matches(name + "0"));
    EXPECT_FALSE(pattern.Matches("0" + name));
  }
  EXPECT_FALSE(Pattern(ExactPattern("a.b")).Matches("axb"));
}

}  // namespace
}  // namespace hif8
