// Exponents of values and of records, against plain loops over the values.
#include "lib/numeric/exponent_histogram.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "formats/builtin.h"
#include "tests/numeric/random_data.h"

namespace hif8 {
namespace {

std::vector<float> Values() {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<float> values(30001);
  for (float& v : values) v = normal(random);
  for (size_t i = 0; i < values.size(); i += 10) values[i] = 0;
  return values;
}

std::map<int, uint64_t> Plain(const std::vector<float>& values, double scale) {
  std::map<int, uint64_t> counts;
  for (const float v : values) {
    if (v != 0 && std::isfinite(v)) {
      ++counts[static_cast<int>(std::floor(std::log2(std::abs(static_cast<double>(v)) / scale)))];
    }
  }
  return counts;
}

std::map<int, uint64_t> AsMap(const ExponentHistogram& histogram) {
  std::map<int, uint64_t> counts;
  for (const ExponentCount& entry : histogram.Exponents()) counts[entry.exponent] = entry.count;
  return counts;
}

TEST(ExponentHistogram, CountsFiniteValuesByExponent) {
  std::vector<float> values = Values();
  const std::map<int, uint64_t> plain = Plain(values, 1);
  values.push_back(std::numeric_limits<float>::infinity());
  values.push_back(std::nanf(""));
  values.push_back(-0.0F);
  ExponentHistogram whole;
  whole.Add(values);
  EXPECT_EQ(AsMap(whole), plain);
  EXPECT_EQ(whole.zeros(), 3002u);
  EXPECT_EQ(whole.count(), values.size() - 2);
  ExponentHistogram parts;
  for (size_t i = 0; i < values.size(); i += 97) {
    ExponentHistogram part;
    part.Add(std::span(values).subspan(i, std::min<size_t>(97, values.size() - i)));
    parts.Merge(part);
  }
  EXPECT_EQ(AsMap(parts), plain);
  EXPECT_EQ(parts.zeros(), 3002u);
}

TEST(ExponentHistogram, EdgesOfOctavesBelongToTheUpperOne) {
  ExponentHistogram histogram;
  histogram.Add(std::vector<float>{1, -1, 1.9999999F, 2, 0.99999994F, 0x1p-126F, 0x1p-149F,
                                   std::numeric_limits<float>::max()});
  const std::map<int, uint64_t> expected = {{-127, 1}, {-126, 1}, {-1, 1},
                                            {0, 3},    {1, 1},    {127, 1}};
  EXPECT_EQ(AsMap(histogram), expected);
}

TEST(ExponentHistogram, OfQuotientsIsThatOfDividedValues) {
  std::mt19937 random(11);
  std::uniform_int_distribution<uint32_t> any;
  std::vector<float> bits(20000);
  for (float& v : bits) v = std::bit_cast<float>(any(random));
  const std::vector<float> weights = Values();
  std::vector<float> scales = {1,      0.25F, 0.00371F, 0x1.fffffep-9F, 0x1.000002p-9F, 3.1F,
                               1e-30F, 1e30F, 1e-40F,   0x1p-126F,      0x1.fffffep127F};
  for (int i = 0; i < 20; ++i) scales.push_back(std::ldexp(std::abs(weights[1 + i * 17]), i - 10));
  for (const float scale : scales) {
    if (scale == 0) continue;
    // Close to a multiple of the scale, on both sides.
    std::vector<float> edges;
    for (int e = -20; e < 20; ++e) {
      const float edge = std::ldexp(scale, e);
      edges.insert(edges.end(), {edge, std::nextafter(edge, 0.0F), -std::nextafter(edge, 1e38F)});
    }
    for (const auto& values : {bits, weights, edges}) {
      ExponentHistogram found;
      found.AddDivided(values, scale);
      std::map<int, uint64_t> expected;
      uint64_t zeros = 0;
      for (const float v : values) {
        const float quotient = v / scale;
        zeros += quotient == 0 ? 1 : 0;
        if (quotient != 0 && std::isfinite(quotient)) {
          ++expected[std::max(std::ilogb(quotient), -127)];
        }
      }
      EXPECT_EQ(AsMap(found), expected) << scale;
      EXPECT_EQ(found.zeros(), zeros) << scale;
    }
  }
}

TEST(ExponentHistogram, OfARecordBeforeScalingIsExact) {
  const std::vector<float> values = Values();
  TensorStats stats;
  stats.Add(View(values));
  EXPECT_EQ(AsMap(ExponentsOf(stats)), Plain(values, 1));
  EXPECT_EQ(ExponentsOf(stats).zeros(), stats.zeros());
}

TEST(ExponentHistogram, OfARecordAfterScaling) {
  const std::vector<float> values = Values();
  TensorStats stats;
  stats.Add(View(values));
  for (const double scale : {1.0, 0.25, 0.005, 0.0173, 3.1}) {
    const ExponentHistogram scaled = ExponentsOf(stats, scale);
    EXPECT_EQ(scaled.count(), values.size());
    EXPECT_EQ(scaled.zeros(), stats.zeros());
    const std::map<int, uint64_t> plain = Plain(values, scale);
    const std::map<int, uint64_t> found = AsMap(scaled);
    const bool power_of_two = scale == 1 || scale == 0.25;
    for (int e = -40; e < 10; ++e) {
      const auto at = [e](const std::map<int, uint64_t>& map) {
        const auto it = map.find(e);
        return it == map.end() ? 0.0 : static_cast<double>(it->second);
      };
      // One bin is 2^-7 of an octave; a power of two divides none.
      EXPECT_NEAR(at(found), at(plain), power_of_two ? 0 : 0.01 * at(plain) + 3)
          << scale << " " << e;
    }
  }
}

TEST(ExponentHistogram, ValuesAtOnePlaceAreNotSplit) {
  const std::vector<float> values(1000, 3.0F);
  TensorStats stats;
  stats.Add(View(values));
  EXPECT_EQ(AsMap(ExponentsOf(stats, 3.0)), (std::map<int, uint64_t>{{0, 1000}}));
  EXPECT_EQ(AsMap(ExponentsOf(stats, 3.0001)), (std::map<int, uint64_t>{{-1, 1000}}));
}

TEST(PrecisionBands, OfHiF8AreThoseOfItsDefinition) {
  const std::vector<PrecisionBand> expected = {{1, -22, -16}, {2, -15, -8}, {3, -7, -4},
                                               {4, -3, 3},    {3, 4, 7},    {2, 8, 15}};
  EXPECT_EQ(PrecisionBands(BuiltinFormats().Get("hif8")), expected);
}

TEST(PrecisionBands, BitsOfAnExponent) {
  const std::vector<PrecisionBand> bands = PrecisionBands(BuiltinFormats().Get("hif8"));
  const std::map<int, int> expected = {{-23, 0}, {-22, 1}, {-15, 2}, {-4, 3}, {-3, 4},
                                       {3, 4},   {7, 3},   {15, 2},  {16, 0}};
  for (const auto& [exponent, bits] : expected) {
    EXPECT_EQ(BitsAt(bands, exponent), bits) << exponent;
  }
}

TEST(PrecisionBands, OfOtherFormats) {
  const auto bands = [](const char* name) { return PrecisionBands(BuiltinFormats().Get(name)); };
  const std::vector<PrecisionBand> e4m3 = {{1, -9, -9}, {2, -8, -8}, {3, -7, -7}, {4, -6, 8}};
  const std::vector<PrecisionBand> e5m2 = {{1, -16, -16}, {2, -15, -15}, {3, -14, 15}};
  const std::vector<PrecisionBand> e2m1 = {{1, -1, -1}, {2, 0, 2}};
  const std::vector<PrecisionBand> int8 = {{1, 0, 0}, {2, 1, 1}, {3, 2, 2}, {4, 3, 3},
                                           {5, 4, 4}, {6, 5, 5}, {7, 6, 6}};
  EXPECT_EQ(bands("fp8_e4m3"), e4m3);
  EXPECT_EQ(bands("fp8_e5m2"), e5m2);
  EXPECT_EQ(bands("mxfp4"), e2m1);
  EXPECT_EQ(bands("int8"), int8);
}

}  // namespace
}  // namespace hif8
