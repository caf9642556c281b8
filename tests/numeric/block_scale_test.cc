// Tiles against element-by-element index arithmetic.
#include "lib/numeric/block_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <random>

#include "formats/builtin.h"
#include "lib/core/parallel.h"
#include "lib/numeric/tile_scaling.h"

namespace hif8 {
namespace {

struct LayoutCase {
  std::string name;
  TileLayout layout;
};

std::vector<LayoutCase> Cases() {
  using Tile = TileScales::Tile;
  return {
      {"scalar", TileLayout::PerTensor({})},
      {"tensor", TileLayout::PerTensor({7, 5, 3})},
      {"large_tensor", TileLayout::PerTensor({300, 1000})},
      {"channel_first", TileLayout::PerChannel({37, 3, 5, 2}, 0)},
      {"channel_middle", TileLayout::PerChannel({4, 37, 21}, 1)},
      {"channel_last", TileLayout::PerChannel({129, 70}, 1)},
      {"channel_last_batched", TileLayout::PerChannel({3, 65, 17}, 2, 1)},
      {"token", TileLayout::PerToken({2, 9, 33})},
      {"group_last", TileLayout::Tiles({11, 100}, 0, 1, Tile{1, 32})},
      {"group_last_whole", TileLayout::Tiles({11, 96}, 0, 1, Tile{1, 32})},
      {"group_shorter_than_one", TileLayout::Tiles({11, 5}, 0, 1, Tile{1, 32})},
      {"group_first", TileLayout::Tiles({100, 23}, 1, 0, Tile{1, 32})},
      {"group_middle", TileLayout::Tiles({3, 70, 9}, 2, 1, Tile{1, 32})},
      {"group_long", TileLayout::Tiles({3, 5000}, 0, 1, Tile{1, 2048})},
      {"block", TileLayout::Tiles({300, 200}, 0, 1, Tile{128, 128})},
      {"block_transposed", TileLayout::Tiles({200, 300}, 1, 0, Tile{128, 128})},
      {"block_of_experts", TileLayout::Tiles({3, 130, 140}, 1, 2, Tile{128, 128})},
      {"block_wide", TileLayout::Tiles({130, 20000}, 0, 1, Tile{128, 128})},
      {"activation_block", TileLayout::Tiles({2, 5, 300}, 1, 2, Tile{1, 128})},
      {"single_elements", TileLayout::Tiles({6, 7}, 0, 1, Tile{1, 1})},
      {"from_channels", TileLayout(ChannelLayout{3, 5, 7, 11})},
      {"empty", TileLayout::PerChannel({0, 8}, 0)},
  };
}

// The scale that element `index` belongs to, from its coordinates.
size_t TileOf(const TileLayout& layout, size_t index) {
  std::vector<size_t> at(layout.shape.size());
  for (size_t i = at.size(); i-- > 0;) {
    at[i] = index % static_cast<size_t>(layout.shape[i]);
    index /= static_cast<size_t>(layout.shape[i]);
  }
  size_t tile = 0;
  for (size_t i = 0; i < at.size(); ++i) {
    const auto edge = static_cast<size_t>(layout.tile[i]);
    const size_t count = (static_cast<size_t>(layout.shape[i]) + edge - 1) / edge;
    tile = tile * count + at[i] / edge;
  }
  return tile;
}

class Tiles : public testing::TestWithParam<size_t> {
 protected:
  Tiles() : layout_(Cases()[GetParam()].layout), x_(layout_.size()) {
    std::mt19937 random(42);
    std::normal_distribution<float> normal(0, 1);
    for (float& value : x_) value = normal(random);
    std::uniform_real_distribution<float> exponent(-6, 6);
    scales_.resize(layout_.scale_count());
    for (float& scale : scales_) scale = std::exp2(exponent(random));
  }

  TensorView View() const {
    return {DType::kF32, layout_.shape, reinterpret_cast<const std::byte*>(x_.data())};
  }

  TileLayout layout_;
  std::vector<float> x_;
  std::vector<float> scales_;
};

TEST_P(Tiles, EachIsVisitedOnceWithItsValuesInMemoryOrder) {
  std::map<size_t, std::vector<float>> expected, seen;
  for (size_t i = 0; i < x_.size(); ++i) expected[TileOf(layout_, i)].push_back(x_[i]);
  EXPECT_EQ(layout_.scale_count(), expected.size());
  for (const int threads : {1, 2}) {
    SetThreads(threads);
    seen.clear();
    std::mutex mutex;
    ForEachTile(View(), layout_, [&](size_t index, std::span<const float> values) {
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(seen.emplace(index, std::vector(values.begin(), values.end())).second) << index;
    });
    EXPECT_TRUE(seen == expected);
  }
  SetThreads(0);
}

TEST_P(Tiles, EncodeDecodeAndBothTogetherUseTheTilesScale) {
  for (const char* name : {"hif8", "mxfp4", "int8"}) {
    const NumberFormat& format = BuiltinFormats().Get(name);
    std::vector<uint8_t> codes(x_.size());
    std::vector<float> decoded(x_.size()), both = x_;
    EncodeTiles(format, View(), layout_, scales_, codes);
    DecodeTiles(format, codes, layout_, scales_, decoded);
    QuantizeDequantizeTiles(format, both, layout_, scales_, both);
    for (size_t i = 0; i < x_.size(); ++i) {
      const float scale = scales_[TileOf(layout_, i)];
      const uint8_t code = format.EncodeOne(x_[i] / scale, Overflow::kSaturate);
      ASSERT_EQ(codes[i], code) << i;
      ASSERT_EQ(decoded[i], format.DecodeTable()[code] * scale) << i;
      ASSERT_EQ(both[i], decoded[i]) << i;
    }
  }
}

TEST_P(Tiles, OtherElementTypes) {
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF64}) {
    std::vector<std::byte> bytes(x_.size() * DTypeSize(dtype) + 1);
    ConvertFromFloat(dtype, x_.data(), x_.size(), bytes.data() + 1);
    std::vector<float> rounded(x_.size());
    ConvertToFloat(dtype, bytes.data() + 1, x_.size(), rounded.data());
    const TensorView view{dtype, layout_.shape, bytes.data() + 1};
    std::vector<uint8_t> codes(x_.size());
    EncodeTiles(format, view, layout_, scales_, codes);
    for (size_t i = 0; i < x_.size(); ++i) {
      ASSERT_EQ(codes[i],
                format.EncodeOne(rounded[i] / scales_[TileOf(layout_, i)], Overflow::kSaturate));
    }
    std::vector<double> sums(layout_.scale_count()), expected(layout_.scale_count());
    ForEachTile(view, layout_, [&](size_t index, std::span<const float> values) {
      for (const float value : values) sums[index] += value;
    });
    for (size_t i = 0; i < x_.size(); ++i) expected[TileOf(layout_, i)] += rounded[i];
    EXPECT_EQ(sums, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Tiles, testing::Range(size_t{0}, Cases().size()),
                         [](const auto& tested) { return Cases()[tested.param].name; });

TEST(TileLayout, ScaleShapes) {
  using Tile = TileScales::Tile;
  EXPECT_EQ(TileLayout::Tiles({300, 200}, 0, 1, Tile{128, 128}).scale_shape(), (Shape{3, 2}));
  EXPECT_EQ(TileLayout::Tiles({11, 100}, 0, 1, Tile{1, 32}).scale_shape(), (Shape{11, 4}));
  EXPECT_EQ(TileLayout::PerChannel({37, 3, 5}, 0).scale_shape(), (Shape{37, 1, 1}));
  EXPECT_EQ(TileLayout::PerToken({2, 9, 33}).scale_shape(), (Shape{2, 9, 1}));
  EXPECT_EQ(TileLayout::PerTensor({4, 4}).scale_count(), 1U);
  EXPECT_EQ(TileLayout(ChannelLayout::Axis({8, 16, 3}, 1)).scale_count(), 16U);
}

TEST(E8M0, ScalesOfTheSpecification) {
  const NumberFormat& e4m3 = BuiltinFormats().Get("mxfp8");  // emax 8
  const NumberFormat& e2m1 = BuiltinFormats().Get("mxfp4");  // emax 2
  EXPECT_EQ(E8M0FromAmax(0, e4m3), 0);
  EXPECT_EQ(E8M0FromAmax(1, e4m3), 127 - 8);
  EXPECT_EQ(E8M0FromAmax(std::nextafter(2.0F, 0.0F), e4m3), 127 - 8);
  EXPECT_EQ(E8M0FromAmax(2, e4m3), 127 - 7);
  EXPECT_EQ(E8M0FromAmax(6, e2m1), 127);
  EXPECT_EQ(E8M0FromAmax(8, e2m1), 128);
  EXPECT_EQ(E8M0FromAmax(0x1p-126F, e4m3), 0);
  EXPECT_EQ(E8M0FromAmax(1e-45F, e2m1), 0);
  EXPECT_EQ(E8M0FromAmax(3.4e38F, e2m1), 127 + 125);
  for (int code = 0; code < 255; ++code) {
    EXPECT_EQ(E8M0Value(static_cast<uint8_t>(code)), std::ldexp(1.0, code - 127)) << code;
  }
  EXPECT_TRUE(std::isnan(E8M0Value(255)));
}

// A group of zeros has the smallest scale of all, which is not a normal fp32: it must still work.
TEST(E8M0, AnAllZeroGroupAndNonFiniteValues) {
  for (const char* name : {"mxfp8", "mxfp4"}) {
    const NumberFormat& format = BuiltinFormats().Get(name);
    std::vector<float> x(64, 0.0F);
    const TileScaling scaling{{1, 32}};
    const TileLayout layout = TileLayout::PerTensor({64});
    const TensorView view{DType::kF32, {64}, reinterpret_cast<const std::byte*>(x.data())};
    const float scale = FindScales(view, layout, format, scaling)[0];
    EXPECT_EQ(scale, 0x1p-127F);
    std::vector<uint8_t> codes(x.size(), 1);
    format.Encode(DType::kF32, reinterpret_cast<const std::byte*>(x.data()),
                  ScaleOperand::One(scale), codes);
    EXPECT_EQ(codes, std::vector<uint8_t>(x.size(), 0));
    x[3] = std::numeric_limits<float>::infinity();
    x[5] = std::numeric_limits<float>::quiet_NaN();
    x[7] = -1.5F;
    EXPECT_EQ(FindScales(view, layout, format, scaling)[0],
              std::ldexp(1.0F, -std::ilogb(format.MaxFinite())));
  }
}

TEST(TileLayout, DimensionsOfTensorsWithoutElementsMayBeLarge) {
  const Shape shape = {0, INT64_MAX};
  EXPECT_EQ(TileLayout::PerTensor(shape).scale_shape(), (Shape{0, 1}));
  EXPECT_EQ(TileLayout(shape, {1, INT64_MAX - 1}).scale_shape(), (Shape{0, 2}));
}

}  // namespace
}  // namespace hif8
