// Scales of a weight's channels do not depend on the number of threads that solve for them.
#include <gtest/gtest.h>

#include <vector>

#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "lib/core/parallel.h"
#include "lib/numeric/block_scale.h"
#include "tests/calibrators/plain_format.h"

namespace hif8 {
namespace {

TEST(SolveConcurrency, EveryNumberOfThreadsGivesTheSameScales) {
  const std::vector<float> values = Draw(Shape1D::kHeavyTail, 48 * 700, 1);
  const PlainFormat floating = Floating();
  for (const ChannelLayout& layout : {ChannelLayout{1, 1, 48, 700}, ChannelLayout{1, 700, 48, 1}}) {
    for (const char* name : {"max", "percentile", "mse"}) {
      std::vector<std::vector<float>> scales;
      for (const int threads : {1, 2, 4}) {
        SetThreads(threads);
        std::vector<float>& found = scales.emplace_back(layout.scale_count());
        const TensorView view{DType::kF32,
                              {static_cast<int64_t>(values.size())},
                              reinterpret_cast<const std::byte*>(values.data())};
        ForEachTile(view, TileLayout(layout), [&](size_t c, std::span<const float> channel) {
          // Two formats in turn: what a thread keeps of one must not reach the other.
          const NumberFormat& hif8 = BuiltinFormats().Get("hif8");
          const Calibrator& rule = BuiltinCalibrators().Get(name);
          found[c] = c % 2 == 0 ? rule.Solve(channel, hif8, {}).scale
                                : rule.Solve(channel, floating, {}).scale;
        });
      }
      SetThreads(0);
      EXPECT_EQ(scales[0], scales[1]) << name;
      EXPECT_EQ(scales[0], scales[2]) << name;
    }
  }
}

}  // namespace
}  // namespace hif8
