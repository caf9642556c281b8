// Integers with zero points against ONNX's definition, element by element.
#include "lib/numeric/zero_points.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "formats/builtin.h"

namespace hif8 {
namespace {

// [5, 7] with tiles of 2 x 3: nine scales.
struct Example {
  TileLayout layout{{5, 7}, {2, 3}};
  std::vector<float> scales, zeros, x;

  Example() {
    std::mt19937 random(4);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < layout.scale_count(); ++i) {
      scales.push_back(0.01F + 0.002F * static_cast<float>(i));
      zeros.push_back(static_cast<float>(i * 37 % 256) - 128);
    }
    for (size_t i = 0; i < layout.size(); ++i) x.push_back(normal(random));
    x[3] = 1e9F;
    x[4] = -1e9F;
  }

  static size_t TileOf(size_t i) { return i / 7 / 2 * 3 + i % 7 / 3; }
  ShiftedScales how() const { return {layout, scales, zeros}; }
};

TEST(ZeroPoints, DecodesCodeByCode) {
  const Example example;
  std::vector<uint8_t> codes;
  for (size_t i = 0; i < example.layout.size(); ++i) codes.push_back(static_cast<uint8_t>(i * 91));
  std::vector<float> y(codes.size());
  DecodeShifted(BuiltinFormats().Get("int8"), codes, example.how(), y);
  for (size_t i = 0; i < codes.size(); ++i) {
    const size_t tile = Example::TileOf(i);
    const auto code = static_cast<float>(static_cast<int8_t>(codes[i]));
    EXPECT_EQ(y[i], (code - example.zeros[tile]) * example.scales[tile]) << i;
  }
}

class Rounding : public testing::TestWithParam<std::pair<const char*, int>> {};

TEST_P(Rounding, TakesTheNearestCode) {
  const auto [name, codes] = GetParam();
  const Example example;
  std::vector<float> y(example.x.size());
  RoundShifted(StoredFormats().Get(name), example.x, example.how(), y);
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t tile = Example::TileOf(i);
    double nearest = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int code = -codes / 2; code < codes / 2; ++code) {
      const double value = (code - static_cast<double>(example.zeros[tile])) * example.scales[tile];
      if (std::fabs(value - example.x[i]) >= least) continue;
      least = std::fabs(value - example.x[i]);
      nearest = value;
    }
    EXPECT_NEAR(y[i], nearest, 1e-6) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Integers, Rounding,
                         testing::Values(std::pair("int8", 256), std::pair("int4", 16)));

}  // namespace
}  // namespace hif8
