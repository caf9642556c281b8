// The loops of every instruction set that this machine can run, against plain ones.
#include "lib/numeric/vector_kernels.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "lib/numeric/exponent_fields.h"
#include "tests/numeric/random_data.h"

namespace hif8 {
namespace {

void OnEveryTarget(const std::function<void()>& check) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(VectorKernels, Scans) {
  for (const size_t n : {0, 1, 7, 64, 1000, 1023}) {
    std::vector<float> x = AnyBits(n, 1);
    std::vector<float> y = AnyBits(n, 2);
    for (size_t i = 0; i < n; i += 3) y[i] = i % 2 == 0 ? 0.0F : -0.0F;
    for (size_t i = 0; i < n; i += 6) x[i] = 0.0F;
    // The same values to bf16, behind an odd address.
    std::vector<std::byte> narrow(2 * n + 1);
    uint32_t most_narrow = 0;
    MagnitudeScan scan;
    PairScan pairs;
    RangeScan range;
    for (size_t i = 0; i < n; ++i) {
      const uint32_t a = std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFF;
      const uint32_t b = std::bit_cast<uint32_t>(y[i]) & 0x7FFFFFFF;
      scan.most = std::max(scan.most, a);
      most_narrow = std::max(most_narrow, a & 0xFFFF0000);
      const auto upper = static_cast<uint16_t>(std::bit_cast<uint32_t>(x[i]) >> 16);
      std::memcpy(narrow.data() + 1 + 2 * i, &upper, sizeof(upper));
      if (a > 0) scan.least = std::min(scan.least, a);
      scan.zeros += x[i] == 0 ? 1 : 0;
      pairs.most_y = std::max(pairs.most_y, b);
      pairs.zero += y[i] == 0 ? 1 : 0;
      pairs.zeroed += y[i] == 0 && x[i] != 0 ? 1 : 0;
      if (!std::isfinite(x[i])) continue;
      ++range.finite;
      range.saturated += std::abs(x[i]) / 0.3F >= 20.0F ? 1 : 0;
      range.exceeded += std::abs(x[i]) > 1.5F ? 1 : 0;
    }
    OnEveryTarget([&] {
      const MagnitudeScan found = ScanMagnitudes(x.data(), n);
      EXPECT_EQ(found.most, scan.most);
      EXPECT_EQ(found.least, scan.least);
      EXPECT_EQ(found.zeros, scan.zeros);
      EXPECT_EQ(LargestMagnitude(x.data(), n), scan.most);
      EXPECT_EQ(LargestMagnitudeBF16(narrow.data() + 1, n), most_narrow);
      const PairScan found_pairs = ScanPairs(x.data(), y.data(), n);
      EXPECT_EQ(found_pairs.most_x, scan.most);
      EXPECT_EQ(found_pairs.most_y, pairs.most_y);
      EXPECT_EQ(found_pairs.zero, pairs.zero);
      EXPECT_EQ(found_pairs.zeroed, pairs.zeroed);
      const RangeScan found_range = ScanRange(x.data(), n, 0.3F, 20.0F, 1.5F);
      EXPECT_EQ(found_range.finite, range.finite);
      EXPECT_EQ(found_range.saturated, range.saturated);
      EXPECT_EQ(found_range.exceeded, range.exceeded);
    });
  }
}

TEST(VectorKernels, ExponentFields) {
  const std::vector<float> any = AnyBits(9001, 7);
  const std::vector<float> weights = Normal(9001, 0.02, 8);
  std::vector<float> mixed = weights;  // with zeros and subnormal values
  for (size_t i = 0; i < mixed.size(); i += 5) mixed[i] = i % 2 == 0 ? 0.0F : 1e-40F;
  const std::vector<float> zeros(9001);
  for (const auto& x : {any, weights, mixed, zeros}) {
    for (const size_t n : {size_t{0}, size_t{3}, size_t{64}, size_t{4032}, size_t{9001}}) {
      for (const uint32_t significand : {0U, 1U, 0x2AAAAAU, 0x7FFFFFU}) {
        ExponentFields expected{};
        for (size_t i = 0; i < n; ++i) {
          const uint32_t bits = std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFF;
          const uint32_t field = bits >> 23;
          ++expected[field > 0 && (bits & 0x7FFFFF) < significand ? field - 1 : field];
        }
        OnEveryTarget([&] {
          ExponentFields found{};
          CountExponents(x.data(), n, significand, &found);
          EXPECT_EQ(found, expected) << n << " " << significand;
        });
      }
    }
  }
}

TEST(VectorKernels, ErrorSumsAreTheSameToTheLastBit) {
  const size_t n = 1000;
  const std::vector<float> x = Normal(n, 1, 3);
  std::vector<float> y = Normal(n, 1e-3, 4);
  for (size_t i = 0; i < n; ++i) y[i] += x[i];
  ErrorSums expected;
  for (size_t i = 0; i < n; ++i) {
    const double a = x[i];
    const double b = y[i];
    const size_t lane = i % kErrorLanes;
    expected.signal[lane] += a * a;
    expected.noise[lane] += (a - b) * (a - b);
    expected.product[lane] += a * b;
    expected.quantized[lane] += b * b;
    expected.error[lane] = std::max(expected.error[lane], std::abs(a - b));
  }
  OnEveryTarget([&] {
    ErrorSums sums;
    AddErrorSums(x.data(), y.data(), 504, &sums);  // in two calls
    AddErrorSums(x.data() + 504, y.data() + 504, n - 504, &sums);
    EXPECT_EQ(sums.signal, expected.signal);
    EXPECT_EQ(sums.noise, expected.noise);
    EXPECT_EQ(sums.product, expected.product);
    EXPECT_EQ(sums.quantized, expected.quantized);
    EXPECT_EQ(sums.error, expected.error);
  });
}

TEST(VectorKernels, RoundingErrorsAreTheSameToTheLastBit) {
  constexpr int kTop = 5;
  constexpr float kFactor = 7.3F;
  std::vector<RoundingTable> tables(9);
  for (size_t t = 0; t < tables.size(); ++t) {
    for (size_t k = 0; k < kRoundingExponents; ++k) {
      const int exponent = kTop - 31 + static_cast<int>(k);
      const int bits = (exponent + static_cast<int>(t)) % 3 == 0 ? 2 : 3;
      tables[t].shift[k] = std::ldexp(1.5F, std::max(exponent - bits, -9) + 23);
    }
    tables[t].largest = std::ldexp(1.0F, static_cast<int>(t) - 2);
  }
  for (const size_t n : {16, 1008, 2048}) {
    std::vector<float> x = LogUniform(n, -34, 2, 9);
    for (float& v : x) v = std::abs(v);
    x[3] = 0;
    std::vector<double> expected;
    for (const RoundingTable& table : tables) {
      float lanes[16] = {};
      for (size_t i = 0; i < n; ++i) {
        const float y = x[i] * kFactor;
        const int exponent = y == 0 ? -1000 : std::ilogb(y);
        const float shift = table.shift[static_cast<size_t>(std::max(exponent - kTop + 31, 0))];
        // volatile: rounded at every step.
        const volatile float shifted = std::min(y, table.largest) + shift;
        const volatile float error = y - (shifted - shift);
        lanes[i % 16] += error * error;
      }
      for (const size_t half : {8, 4, 2, 1}) {
        for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
      }
      expected.push_back(lanes[0]);
    }
    OnEveryTarget([&] {
      std::vector<double> sums(tables.size());
      SumRoundingErrors(x.data(), n, kFactor, kTop, tables, sums.data());
      EXPECT_EQ(sums, expected) << n;
    });
  }
}

TEST(VectorKernels, MantissaErrorsAreThoseOfRoundedBits) {
  for (const size_t count : {1, 4, 7}) {
    std::vector<float> factors;
    for (size_t t = 0; t < count; ++t) factors.push_back(1 + 0.13F * static_cast<float>(t));
    for (const int bits : {0, 3, 22}) {
      std::vector<float> x = LogUniform(2048, -34, 2, 9);
      for (float& v : x) v = std::abs(v);
      x[3] = 0;
      std::vector<double> expected;
      for (const float factor : factors) {
        float lanes[16] = {};
        for (size_t i = 0; i < x.size(); ++i) {
          const float y = x[i] * factor;
          int exponent = 0;
          const float fraction = std::frexp(y, &exponent);
          const float steps = std::ldexp(fraction, bits + 1);
          // volatile: rounded at every step.
          const volatile float error = y - std::ldexp(std::round(steps), exponent - bits - 1);
          lanes[i % 16] += error * error;
        }
        for (const size_t half : {8, 4, 2, 1}) {
          for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
        }
        expected.push_back(lanes[0]);
      }
      OnEveryTarget([&] {
        std::vector<double> sums(count);
        SumMantissaErrors(x.data(), x.size(), factors, bits, sums.data());
        EXPECT_EQ(sums, expected) << count << " factors, " << bits << " bits";
      });
    }
  }
}

}  // namespace
}  // namespace hif8
