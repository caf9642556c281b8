// Sums, tiles and channels are the same bits for any number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "formats/builtin.h"
#include "lib/core/parallel.h"
#include "lib/numeric/block_scale.h"
#include "lib/numeric/error_metrics.h"
#include "lib/numeric/scale_layout.h"
#include "lib/numeric/tensor_stats.h"
#include "tests/numeric/random_data.h"

namespace hif8 {
namespace {

constexpr int kThreads[] = {2, 3, 8};

class NumericConcurrency : public testing::Test {
 protected:
  void TearDown() override { SetThreads(0); }
};

TEST_F(NumericConcurrency, ErrorMetricsAddInOneOrder) {
  const std::vector<float> x = Normal(1000003, 1.0, 1);
  std::vector<float> y = x;
  const std::vector<float> noise = Normal(x.size(), 0.01, 2);
  for (size_t i = 0; i < y.size(); ++i) y[i] += noise[i];
  auto measure = [&](int threads) {
    SetThreads(threads);
    ErrorMetrics metrics;
    metrics.Add(x, y);
    return metrics;
  };
  const ErrorMetrics one = measure(1);
  for (const int threads : kThreads) {
    const ErrorMetrics many = measure(threads);
    EXPECT_EQ(std::bit_cast<uint64_t>(many.SignalEnergy()),
              std::bit_cast<uint64_t>(one.SignalEnergy()));
    EXPECT_EQ(std::bit_cast<uint64_t>(many.NoiseEnergy()),
              std::bit_cast<uint64_t>(one.NoiseEnergy()));
    EXPECT_EQ(std::bit_cast<uint64_t>(many.Cosine()), std::bit_cast<uint64_t>(one.Cosine()));
  }
}

// Long enough for every thread to get shares, and for the record to be packed in between.
TEST_F(NumericConcurrency, RecordsAreTheSameBytes) {
  std::vector<float> x = Normal(700002, 1.0, 6);
  for (size_t i = 0; i < x.size(); i += 7) x[i] = 0;
  x[1000] = 1e-42F;
  x[350000] = std::numeric_limits<float>::infinity();
  x[600000] = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::byte> narrow(2 * x.size());
  ConvertFromFloat(DType::kBF16, x.data(), x.size(), narrow.data());
  const auto shape = [](size_t n) { return Shape{static_cast<int64_t>(n)}; };
  const TensorView plain{DType::kF32, shape(x.size()),
                         reinterpret_cast<const std::byte*>(x.data())};
  const TensorView odd{DType::kBF16, shape(x.size()), narrow.data()};
  const auto record = [&](int threads) {
    SetThreads(threads);
    TensorStats stats;
    for (int turn = 0; turn < 30; ++turn) {
      stats.Add(plain, 2);
      stats.Add(odd);
      if (turn % 10 == 0) stats.Compact();
    }
    return stats.Serialize();
  };
  const std::string one = record(1);
  for (const int threads : kThreads) EXPECT_EQ(record(threads), one);
}

TEST_F(NumericConcurrency, EveryChannelIsVisitedOnce) {
  const Shape shape = {7, 130, 211};
  const ChannelLayout layout = ChannelLayout::Axis(shape, 2, 1);
  const std::vector<float> x = Normal(layout.size(), 1.0, 3);
  auto amax_of = [&](int threads) {
    SetThreads(threads);
    std::vector<float> amax(layout.scale_count(), -1);
    ForEachTile(TensorView{DType::kF32, shape, reinterpret_cast<const std::byte*>(x.data())},
                TileLayout(layout), [&](size_t scale, std::span<const float> values) {
                  EXPECT_EQ(amax[scale], -1) << "channel " << scale << " again";
                  amax[scale] = 0;
                  for (const float v : values) amax[scale] = std::max(amax[scale], std::abs(v));
                });
    return amax;
  };
  const std::vector<float> one = amax_of(1);
  for (const int threads : kThreads) EXPECT_EQ(amax_of(threads), one);
}

TEST_F(NumericConcurrency, TilesOfEveryKind) {
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  const Shape shape = {131, 517};
  const std::vector<float> x = Normal(ElementCount(shape), 1.0, 4);
  const TensorView view{DType::kF32, shape, reinterpret_cast<const std::byte*>(x.data())};
  for (const TileLayout& layout :
       {TileLayout::PerTensor(shape), TileLayout::PerChannel(shape, 0), TileLayout::PerToken(shape),
        TileLayout{shape, {1, 32}}, TileLayout{shape, {128, 128}}}) {
    struct Result {
      std::vector<float> scales;
      std::vector<uint8_t> codes;
      std::vector<float> decoded;
      bool operator==(const Result&) const = default;
    };
    auto quantize = [&](int threads) {
      SetThreads(threads);
      Result result{std::vector<float>(layout.scale_count()), std::vector<uint8_t>(x.size()),
                    std::vector<float>(x.size())};
      ForEachTile(view, layout, [&](size_t tile, std::span<const float> values) {
        float amax = 0;
        for (const float v : values) amax = std::max(amax, std::abs(v));
        result.scales[tile] = amax / 16;
      });
      EncodeTiles(format, view, layout, result.scales, result.codes);
      DecodeTiles(format, result.codes, layout, result.scales, result.decoded);
      return result;
    };
    const Result one = quantize(1);
    for (const int threads : kThreads) {
      EXPECT_EQ(quantize(threads), one) << "tile " << ShapeText(layout.tile);
    }
  }
}

}  // namespace
}  // namespace hif8
