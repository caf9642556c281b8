#include "lib/numeric/tensor_stats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "lib/core/error.h"
#include "tests/numeric/random_data.h"

namespace hif8 {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TensorStats Record(std::span<const float> values, size_t samples = 1) {
  TensorStats stats;
  stats.Add(View(values), samples);
  return stats;
}

std::vector<double> SortedMagnitudes(std::span<const float> values) {
  std::vector<double> sorted;
  for (const float v : values) {
    if (std::isfinite(v)) sorted.push_back(std::abs(static_cast<double>(v)));
  }
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

TEST(TensorStats, CountsWhatItSees) {
  const std::vector<float> values = {0.0f, -0.0f, 1.5f, -3.0f, kNan, kInf, -kInf, 1e-42f};
  const TensorStats stats = Record(values);
  EXPECT_EQ(stats.count(), 5u);
  EXPECT_EQ(stats.zeros(), 2u);
  EXPECT_EQ(stats.nan_count(), 1u);
  EXPECT_EQ(stats.inf_count(), 2u);
  EXPECT_EQ(stats.samples(), 1u);
  EXPECT_EQ(stats.amax(), 3.0f);
  ASSERT_EQ(stats.trace().size(), 1u);
  EXPECT_TRUE(std::isnan(stats.trace()[0]));
}

TEST(TensorStats, EmptyTensorsAddNothing) {
  TensorStats stats;
  stats.Add(View({}));
  EXPECT_EQ(stats.samples(), 0u);
  EXPECT_EQ(stats.count(), 0u);
  EXPECT_EQ(stats.amax(), 0.0f);
  EXPECT_EQ(stats.Percentile(50), 0.0f);
  EXPECT_TRUE(stats.Bins().empty());
  EXPECT_LT(stats.Serialize().size(), 64u);
  EXPECT_EQ(TensorStats::Parse(stats.Serialize(), "").count(), 0u);
}

TEST(TensorStats, OneTraceEntryPerSample) {
  const std::vector<float> values = {1, -2, 3, -4, kNan, 6};
  const TensorStats stats = Record(values, 3);
  ASSERT_EQ(stats.samples(), 3u);
  EXPECT_EQ(stats.trace()[0], 2.0f);
  EXPECT_EQ(stats.trace()[1], 4.0f);
  EXPECT_TRUE(std::isnan(stats.trace()[2]));
  // Four samples do not divide six values: one entry, repeated.
  const TensorStats repeated = Record(std::span(values).first(3), 2);
  ASSERT_EQ(repeated.samples(), 2u);
  EXPECT_EQ(repeated.trace()[0], 3.0f);
  EXPECT_EQ(repeated.trace()[1], 3.0f);
}

TEST(TensorStats, EveryFloatTypeGivesTheSameRecord) {
  // Values that fp16 and bf16 hold exactly.
  const std::vector<float> values = {0.0f, 1.0f, -1.5f, 96.0f, -0.0078125f, kInf, kNan};
  const std::string expected = Record(values).Serialize();
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF64}) {
    std::vector<std::byte> bytes(values.size() * DTypeSize(dtype) + 1);
    ConvertFromFloat(dtype, values.data(), values.size(), bytes.data() + 1);  // unaligned
    TensorStats stats;
    stats.Add({dtype, {7}, bytes.data() + 1});
    EXPECT_EQ(stats.Serialize(), expected) << DTypeName(dtype);
  }
}

// The record after any split, any order of merging and any order of values within a sample.
TEST(TensorStats, DoesNotDependOnSplitsNorOrder) {
  std::mt19937 random(7);
  for (uint32_t round = 0; round < 30; ++round) {
    std::vector<float> values =
        round % 2 == 0 ? AnyBits(3000, round) : LogUniform(3000, -100, 100, round);
    const std::string expected = Record(values).Serialize();
    std::shuffle(values.begin(), values.end(), random);
    EXPECT_EQ(Record(values).Serialize(), expected);

    const std::string in_samples = Record(values, 10).Serialize();
    std::vector<TensorStats> parts;
    for (size_t i = 0; i < 10; ++i)
      parts.push_back(Record(std::span(values).subspan(i * 300, 300)));
    while (parts.size() > 1) {  // neighbours, so that the trace keeps its order
      const size_t i = random() % (parts.size() - 1);
      if (random() % 2 == 0) parts[i] = TensorStats::Parse(parts[i].Serialize(), "");
      parts[i].Merge(parts[i + 1]);
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
    EXPECT_EQ(parts[0].Serialize(), in_samples);
  }
}

// Collapsing what is far below a small amax first must not change what a larger amax gives.
TEST(TensorStats, CollapsingCommutesWithMerging) {
  const std::vector<float> tiny = LogUniform(4000, -120, -60, 1);
  const std::vector<float> small = LogUniform(4000, -90, -20, 2);
  const std::vector<float> large = LogUniform(4000, -60, 30, 3);
  std::vector<float> all = tiny;
  all.insert(all.end(), small.begin(), small.end());
  all.insert(all.end(), large.begin(), large.end());
  const std::string expected = Record(all, 3).Serialize();

  TensorStats step = TensorStats::Parse(Record(tiny).Serialize(), "");
  step.Merge(TensorStats::Parse(Record(small).Serialize(), ""));
  step = TensorStats::Parse(step.Serialize(), "");
  step.Merge(Record(large));
  EXPECT_EQ(step.Serialize(), expected);

  TensorStats late = Record(small);
  late.Merge(Record(large));
  TensorStats first = Record(tiny);
  first.Merge(late);
  EXPECT_EQ(first.Serialize(), expected);
}

TEST(TensorStats, BinsHoldExactCountsAndMeans) {
  const std::vector<float> values = LogUniform(20000, -70, 10, 5);
  std::map<int64_t, std::pair<double, uint64_t>> expected;  // by first magnitude's position
  const int top =
      std::ilogb(*std::ranges::max_element(values, {}, [](float v) { return std::abs(v); }));
  for (const float v : values) {
    const double a = std::abs(static_cast<double>(v));
    const int e = std::ilogb(a);
    const bool fine = e > top - 32;
    const auto part = fine ? static_cast<int64_t>((std::ldexp(a, -e) - 1) * 128) : 0;
    auto& [sum, count] = expected[static_cast<int64_t>(e) * 128 + part];
    sum += std::ldexp(a, -e);
    ++count;
  }
  const std::vector<MagnitudeBin> bins = Record(values).Bins();
  ASSERT_EQ(bins.size(), expected.size());
  size_t i = 0;
  for (const auto& [key, entry] : expected) {
    const MagnitudeBin& bin = bins[i++];
    const int e = std::ilogb(bin.low);
    EXPECT_EQ(bin.count, entry.second);
    EXPECT_NEAR(std::ldexp(bin.mean, -e), entry.first / static_cast<double>(entry.second), 1e-12);
    EXPECT_EQ(bin.width, std::ldexp(e > top - 32 ? 1.0 / 128 : 1.0, e));
    EXPECT_GE(bin.mean, bin.low);
    EXPECT_LT(bin.mean, bin.low + bin.width);
    EXPECT_GE(bin.mean - bin.spread, bin.low - 1e-12 * bin.low);
    EXPECT_LE(bin.mean + bin.spread, (bin.low + bin.width) * (1 + 1e-12));
  }
}

TEST(TensorStats, DiscreteDataKeepsItsValues) {
  std::vector<float> values;
  values.reserve(5000);
  for (int i = 0; i < 5000; ++i) values.push_back(static_cast<float>(i % 17) * 0.1f);
  const std::vector<MagnitudeBin> bins = Record(values).Bins();
  ASSERT_EQ(bins.size(), 16u);
  for (int i = 1; i < 17; ++i) {
    EXPECT_EQ(static_cast<float>(bins[static_cast<size_t>(i) - 1].mean),
              static_cast<float>(i) * 0.1f);
  }
}

TEST(TensorStats, PercentileIsRightToTheWidthOfABin) {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    std::vector<float> values =
        seed < 3 ? Normal(10007, 0.3, seed) : LogUniform(10007, -25, 3, seed);
    if (seed % 2 == 0) std::fill(values.begin(), values.begin() + 3000, 0.0f);
    const std::vector<double> sorted = SortedMagnitudes(values);
    const TensorStats stats = Record(values);
    for (const double p : {0.01, 1.0, 25.0, 50.0, 90.0, 97.0, 99.0, 99.9, 99.99, 100.0}) {
      const auto rank = static_cast<size_t>(std::ceil(p / 100 * 10007));
      const double exact = sorted[std::max<size_t>(rank, 1) - 1];
      EXPECT_NEAR(stats.Percentile(p), exact, exact / 128) << "seed " << seed << " p " << p;
    }
    EXPECT_EQ(stats.Percentile(100), stats.amax());
  }
}

TEST(TensorStats, NearestRankIsNotMovedByRounding) {
  EXPECT_EQ(NearestRank(99.9, 1000), 999u);
  EXPECT_EQ(NearestRank(99.9, 1001), 1000u);
  EXPECT_EQ(NearestRank(0.1, 1000), 1u);
  EXPECT_EQ(NearestRank(1e-9, 10), 1u);
  EXPECT_EQ(NearestRank(100, 7), 7u);
  for (uint64_t n = 1; n <= 3000; ++n) {  // 97.3 % in whole numbers
    EXPECT_EQ(NearestRank(97.3, n), (973 * n + 999) / 1000) << n;
  }
}

TEST(TensorStats, CountsAboveAThreshold) {
  const std::vector<float> values = Normal(50000, 1, 11);
  const std::vector<double> sorted = SortedMagnitudes(values);
  const TensorStats stats = Record(values);
  for (const double t : {0.0, 0.01, 0.5, 1.0, 1.234, 2.5, 3.0}) {
    const auto above =
        static_cast<double>(sorted.end() - std::upper_bound(sorted.begin(), sorted.end(), t));
    EXPECT_NEAR(stats.CountAbove(t), above, 25) << t;
  }
  EXPECT_EQ(stats.CountAbove(stats.amax()), 0);
  EXPECT_EQ(stats.CountAbove(-1), 50000);
}

TEST(TensorStats, ExponentsAreFloorLog2) {
  const std::vector<float> values = LogUniform(20000, -40, 20, 3);
  std::map<int, uint64_t> expected;
  for (const float v : values) ++expected[std::ilogb(v)];
  const std::vector<ExponentCount> found = Record(values).Exponents();
  ASSERT_EQ(found.size(), expected.size());
  for (const ExponentCount& e : found) EXPECT_EQ(e.count, expected[e.exponent]) << e.exponent;
}

// More values than the packed counters hold at once.
TEST(TensorStats, ManyValues) {
  const std::vector<float> block = {0.7f, 0.7f, -0.7f, 0.0f, 5.0f, -1e-30f, 0.70001f, 0.7f};
  std::vector<float> values(size_t{1} << 20);
  for (size_t i = 0; i < values.size(); ++i) values[i] = block[i % block.size()];
  TensorStats stats;
  constexpr uint64_t kTimes = 19;  // 19 * 2^20 > 2^24
  for (uint64_t i = 0; i < kTimes; ++i) stats.Add(View(values));
  const uint64_t each = kTimes << 17;
  EXPECT_EQ(stats.count(), 8 * each);
  EXPECT_EQ(stats.zeros(), each);
  const std::vector<MagnitudeBin> bins = stats.Bins();
  ASSERT_EQ(bins.size(), 3u);
  EXPECT_EQ(bins[0].count, each);
  EXPECT_EQ(bins[1].count, 5 * each);
  EXPECT_DOUBLE_EQ(bins[1].mean,
                   (4 * static_cast<double>(0.7f) + static_cast<double>(0.70001f)) / 5);
  EXPECT_EQ(bins[2].count, each);

  TensorStats doubled;  // the same by merging
  doubled.Add(View(values));
  TensorStats sum;
  for (uint64_t i = 0; i < kTimes; ++i) sum.Merge(doubled);
  EXPECT_EQ(sum.Serialize(), stats.Serialize());
}

size_t BytesWithoutTrace(const TensorStats& stats) {
  return stats.Serialize().size() - 4 * stats.samples();
}

// The record of `values` repeated 2^doublings times.
TensorStats Doubled(std::span<const float> values, int doublings) {
  TensorStats stats = Record(values);
  for (int i = 0; i < doublings; ++i) stats.Merge(stats);
  return stats;
}

TEST(TensorStats, SerializedSizeIsBounded) {
  constexpr size_t kLimit = 32 * 1024;
  EXPECT_LT(BytesWithoutTrace(Doubled(Normal(1 << 20, 1, 1), 0)), kLimit / 2);
  EXPECT_LT(BytesWithoutTrace(Doubled(Normal(1 << 20, 1, 1), 24)), kLimit);  // 1.7e13 values
  EXPECT_LT(BytesWithoutTrace(Doubled(LogUniform(1 << 20, -126, 127, 2), 10)), kLimit);
  EXPECT_LT(BytesWithoutTrace(Doubled(LogUniform(1 << 20, 96, 127.9, 2), 10)), kLimit);

  // Every bin that a record can have, as often in each; every second one four times as often.
  for (const uint32_t more : {0u, 3u}) {
    std::vector<float> worst;
    const auto add = [&](uint32_t key) {
      const uint32_t times = 1 + (key % 2 == 0 ? more : 0);
      worst.insert(worst.end(), times, std::bit_cast<float>(key << 16 | 0xffff));
    };
    for (uint32_t key = 0; key < 0x7f80; ++key) {
      if (key >= 0x6f80 || key % 128 == 127) add(key);
    }
    int doublings = 0;
    while (worst.size() << (doublings + 1) < 1000000000u) ++doublings;
    const TensorStats stats = Doubled(worst, doublings);
    EXPECT_EQ(stats.Bins().size(), 32 * 128 + 223u);
    EXPECT_LT(BytesWithoutTrace(stats), kLimit) << stats.count() << " values";
  }
}

TEST(TensorStats, SavedAndLoadedIsTheSame) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> values =
        seed % 2 == 0 ? AnyBits(5000, seed) : Normal(5000, 1e-3, seed);
    const TensorStats stats = Record(values, 5);
    const TensorStats loaded = TensorStats::Parse(stats.Serialize(), "");
    EXPECT_EQ(loaded.Serialize(), stats.Serialize());
    EXPECT_EQ(loaded.count(), stats.count());
    EXPECT_EQ(loaded.Percentile(99), stats.Percentile(99));
    EXPECT_EQ(loaded.CountAbove(1e-3), stats.CountAbove(1e-3));
    EXPECT_EQ(loaded.samples(), 5u);
  }
}

TEST(TensorStats, DamagedBytesAreAnErrorOrARecord) {
  std::mt19937 random(3);
  const std::string good = Record(LogUniform(3000, -80, 20, 4), 3).Serialize();
  for (size_t n = 0; n < good.size(); ++n) {
    EXPECT_THROW(TensorStats::Parse(good.substr(0, n), "f"), Error) << n;
  }
  EXPECT_THROW(TensorStats::Parse(good + '\0', "f"), Error);
  for (int i = 0; i < 20000; ++i) {
    std::string bad = good;
    const size_t edits = 1 + random() % 4;
    for (size_t k = 0; k < edits; ++k) {
      // Half of the time among the counters and the first bins.
      const size_t range = random() % 2 == 0 ? bad.size() : 80;
      bad[random() % range] = static_cast<char>(random());
    }
    try {
      const TensorStats stats = TensorStats::Parse(bad, "file");
      EXPECT_EQ(stats.Serialize(), bad);
      stats.Bins();
      stats.Percentile(99);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kModel);
      EXPECT_EQ(error.where(), "file");
    }
  }
}

}  // namespace
}  // namespace hif8
