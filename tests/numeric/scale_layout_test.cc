#include "lib/numeric/scale_layout.h"

#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "lib/core/parallel.h"
#include "lib/numeric/block_scale.h"
#include "tests/numeric/random_data.h"

namespace hif8 {
namespace {

using Channels = std::vector<std::vector<float>>;

// By the definition in the header, element by element.
Channels Expected(std::span<const float> values, const ChannelLayout& l) {
  Channels channels(l.scale_count());
  size_t at = 0;
  for (size_t b = 0; b < l.batch; ++b) {
    for (size_t o = 0; o < l.outer; ++o) {
      for (size_t c = 0; c < l.channels; ++c) {
        for (size_t i = 0; i < l.inner; ++i) channels[b * l.channels + c].push_back(values[at++]);
      }
    }
  }
  return channels;
}

Channels Visited(const TensorView& tensor, const ChannelLayout& layout) {
  Channels channels(layout.scale_count());
  std::vector<int> visits(layout.scale_count());
  std::mutex mutex;
  ForEachTile(tensor, TileLayout(layout), [&](size_t index, std::span<const float> values) {
    const std::lock_guard lock(mutex);
    channels[index].assign(values.begin(), values.end());
    ++visits[index];
  });
  for (const int n : visits) EXPECT_EQ(n, 1);
  return channels;
}

TEST(ChannelLayout, AxisOfAShape) {
  const ChannelLayout conv = ChannelLayout::Axis({8, 4, 3, 3}, 0);
  EXPECT_EQ(conv.batch, 1u);
  EXPECT_EQ(conv.outer, 1u);
  EXPECT_EQ(conv.channels, 8u);
  EXPECT_EQ(conv.inner, 36u);
  const ChannelLayout matmul = ChannelLayout::Axis({2, 5, 6, 7}, 3, 2);
  EXPECT_EQ(matmul.batch, 10u);
  EXPECT_EQ(matmul.outer, 6u);
  EXPECT_EQ(matmul.channels, 7u);
  EXPECT_EQ(matmul.inner, 1u);
  EXPECT_EQ(matmul.scale_count(), 70u);
  const ChannelLayout transposed = ChannelLayout::Axis({4, 6, 3}, 1);
  EXPECT_EQ(transposed.outer, 4u);
  EXPECT_EQ(transposed.channels, 6u);
  EXPECT_EQ(transposed.inner, 3u);
}

TEST(ForEachTile, VisitsEveryChannelWithItsValues) {
  const std::vector<ChannelLayout> layouts = {{1, 1, 5, 12},  {1, 7, 3, 4},     {1, 33, 130, 1},
                                              {2, 17, 65, 1}, {3, 5, 2, 9},     {1, 1, 1, 100},
                                              {2, 300, 1, 4}, {1, 1000, 70, 1}, {1, 1, 200, 1000}};
  for (const int threads : {1, 4}) {
    SetThreads(threads);
    for (const ChannelLayout& layout : layouts) {
      std::vector<float> values = Normal(layout.size(), 1, 9);
      for (float& v : values) v = static_cast<float>(static_cast<int>(v * 64)) / 64;  // fp16 exact
      const Channels expected = Expected(values, layout);
      EXPECT_EQ(Visited(View(values), layout), expected);
      std::vector<std::byte> half(2 * values.size() + 1);
      ConvertFromFloat(DType::kF16, values.data(), values.size(), half.data() + 1);
      const TensorView view{DType::kF16, {static_cast<int64_t>(values.size())}, half.data() + 1};
      EXPECT_EQ(Visited(view, layout), expected);
    }
  }
  SetThreads(0);
}

TEST(ForEachTile, ContiguousChannelsAreNotCopied) {
  const std::vector<float> values(64, 1.0f);
  ForEachTile(View(values), TileLayout(ChannelLayout{1, 1, 4, 16}),
              [&](size_t index, std::span<const float> run) {
                EXPECT_EQ(run.data(), values.data() + 16 * index);
              });
}

}  // namespace
}  // namespace hif8
