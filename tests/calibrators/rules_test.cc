#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "tests/calibrators/plain_format.h"

namespace hif8 {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const Calibrator& Rule(const char* name) { return BuiltinCalibrators().Get(name); }
const NumberFormat& Hif8() { return BuiltinFormats().Get("hif8"); }

TEST(ScaleFromReference, RoundsAsAsked) {
  ScaleParams params;
  EXPECT_EQ(ScaleFromReference(3.0F, 3.0F, 16.0F, params), 3.0F / 16.0F);
  EXPECT_EQ(ScaleFromReference(0.1F, 0.1F, 15.0F, params), 0.1F / 15.0F);
  EXPECT_EQ(ScaleFromReference(0.0F, 5.0F, 16.0F, params), 1.0F);
  params.power_of_two = true;
  EXPECT_EQ(ScaleFromReference(3.0F, 3.0F, 16.0F, params), 0.25F);
  EXPECT_EQ(ScaleFromReference(4.0F, 4.0F, 16.0F, params), 0.25F);
  EXPECT_EQ(ScaleFromReference(4.0000005F, 4.0F, 16.0F, params), 0.5F);
  params.power_of_two = false;
  params.scale_dtype = ScaleDType::kBF16;
  // Halfway between two bf16 numbers: to the even one.
  EXPECT_EQ(ScaleFromReference(1.00390625F, 1.0F, 1.0F, params), 1.0F);
  EXPECT_EQ(ScaleFromReference(1.01171875F, 1.0F, 1.0F, params), 1.015625F);
  EXPECT_EQ(ScaleFromReference(1.0039064F, 1.0F, 1.0F, params), 1.0078125F);
}

TEST(ScaleFromReference, StaysWithinFp32) {
  const float most = std::numeric_limits<float>::max();
  ScaleParams params;
  EXPECT_EQ(ScaleFromReference(1e-40F, 1e-40F, 16.0F, params), 0x1p-126F);
  // The least scale that leaves amax / scale finite, to the last bit.
  const float least = ScaleFromReference(1e-30F, most, 16.0F, params);
  EXPECT_TRUE(std::isfinite(most / least));
  EXPECT_TRUE(std::isinf(most / std::nextafter(least, 0.0F)));
  EXPECT_EQ(ScaleFromReference(most, most, 1e-3F, params), most);
  params.power_of_two = true;
  EXPECT_EQ(ScaleFromReference(most, most, 1e-3F, params), 0x1p127F);
  params.power_of_two = false;
  params.scale_dtype = ScaleDType::kBF16;
  EXPECT_EQ(ScaleFromReference(most, most, 1.0F, params), std::bit_cast<float>(0x7F7F0000U));
}

TEST(MaxRule, MapsAmaxToTheTarget) {
  const std::vector<float> values = {0.5F, -3.7F, 1.0F};
  EXPECT_EQ(Rule("max").Solve(values, Hif8(), {}).scale, 3.7F / 16);
  ScaleParams params;
  params.target = 15;
  EXPECT_EQ(Rule("max").Solve(values, Hif8(), params).scale, 3.7F / 15);
  EXPECT_EQ(Rule("max").Solve(Record(values), Hif8(), params).reference, 3.7F);
}

TEST(PercentileRule, NearestRankOverAllValues) {
  std::vector<float> values;
  for (int i = 1; i <= 1000; ++i) values.push_back(static_cast<float>(i % 2 == 0 ? i : -i));
  ScaleParams params;
  params.percentile = 97.3;
  EXPECT_EQ(Rule("percentile").Solve(values, Hif8(), params).reference, 973.0F);
  params.percentile = 97.31;
  EXPECT_EQ(Rule("percentile").Solve(values, Hif8(), params).reference, 974.0F);
  params.percentile = 100;
  EXPECT_EQ(Rule("percentile").Solve(values, Hif8(), params).reference, 1000.0F);
  EXPECT_EQ(Rule("percentile").Solve(Record(values), Hif8(), params).reference, 1000.0F);
  params.percentile = 0.05;
  EXPECT_EQ(Rule("percentile").Solve(values, Hif8(), params).reference, 1.0F);
}

TEST(PercentileRule, ZeroFallsBackToAmaxAndSaysSo) {
  std::vector<float> values(1000, 0.0F);
  values[3] = -2.0F;
  ScaleParams params;
  params.percentile = 99;
  for (const ScaleChoice& choice : {Rule("percentile").Solve(values, Hif8(), params),
                                    Rule("percentile").Solve(Record(values), Hif8(), params)}) {
    EXPECT_EQ(choice.reference, 2.0F);
    EXPECT_EQ(choice.scale, 2.0F / 16);
    EXPECT_FALSE(choice.note.empty());
  }
  params.percentile = 100;
  EXPECT_TRUE(Rule("percentile").Solve(values, Hif8(), params).note.empty());
}

TEST(EmaRule, IsTheRunningAverageInDouble) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> draw(0.1F, 5);
  std::vector<float> values(200);
  for (float& v : values) v = draw(random);
  values[20] = kNan;  // a sample that is left out
  double expected = 0;
  bool first = true;
  for (const float v : values) {
    if (std::isnan(v)) continue;
    expected = first ? v : 0.99 * expected + (1 - 0.99) * v;
    first = false;
  }
  const ScaleChoice choice = Rule("ema").Solve(Record(values, 200), Hif8(), {});
  EXPECT_EQ(choice.reference, static_cast<float>(expected));
  EXPECT_EQ(choice.scale, static_cast<float>(expected) / 16);
  EXPECT_TRUE(choice.note.empty());
}

TEST(EmaRule, OnlyNonFiniteSamples) {
  const std::vector<float> values = {1.0F, kNan, -3.0F, kNan};
  const ScaleChoice choice = Rule("ema").Solve(Record(values, 2), Hif8(), {});
  EXPECT_EQ(choice.reference, 3.0F);
  EXPECT_FALSE(choice.note.empty());
}

TEST(CastRule, IsScaleOne) {
  const ScaleChoice choice = Rule("cast").Solve(TensorStats(), Hif8(), {});
  EXPECT_EQ(choice.scale, 1.0F);
  EXPECT_EQ(choice.reference, 32768.0F);
  EXPECT_EQ(choice.target, 32768.0F);
}

}  // namespace
}  // namespace hif8
