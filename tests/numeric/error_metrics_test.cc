#include "lib/numeric/error_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "lib/core/parallel.h"
#include "tests/numeric/random_data.h"

namespace hif8 {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> Rounded(std::span<const float> x, float step) {
  std::vector<float> y(x.begin(), x.end());
  for (float& v : y) v = std::nearbyint(v / step) * step;
  return y;
}

TEST(ErrorMetrics, AgreesWithTheDefinitions) {
  std::vector<float> x = Normal(10001, 1, 1);
  for (size_t i = 0; i < 100; ++i) x[i * 7] = 0;
  const std::vector<float> y = Rounded(x, 0.25f);
  long double signal = 0, noise = 0, product = 0, other = 0, worst = 0, amax = 0;
  double zero = 0, zeroed = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const long double a = x[i], b = y[i];
    signal += a * a;
    noise += (a - b) * (a - b);
    product += a * b;
    other += b * b;
    worst = std::max(worst, std::abs(a - b));
    amax = std::max(amax, std::abs(a));
    zero += y[i] == 0 ? 1 : 0;
    zeroed += y[i] == 0 && x[i] != 0 ? 1 : 0;
  }
  ErrorMetrics metrics;
  metrics.Add(x, y);
  EXPECT_EQ(metrics.count(), x.size());
  EXPECT_NEAR(metrics.SqnrDb(), static_cast<double>(10 * std::log10(signal / noise)), 1e-10);
  EXPECT_NEAR(metrics.Cosine(), static_cast<double>(product / std::sqrt(signal * other)), 1e-12);
  EXPECT_DOUBLE_EQ(metrics.ZeroRate(), zero / 10001);
  EXPECT_DOUBLE_EQ(metrics.ZeroedRate(), zeroed / 10001);
  EXPECT_EQ(metrics.MaxAbsError(), static_cast<double>(worst));
  EXPECT_EQ(metrics.Amax(), static_cast<double>(amax));
}

TEST(ErrorMetrics, EdgesOfTheDefinitions) {
  const ErrorMetrics nothing;
  EXPECT_TRUE(std::isnan(nothing.SqnrDb()));
  EXPECT_TRUE(std::isnan(nothing.ZeroRate()));
  EXPECT_TRUE(std::isnan(nothing.SaturationRate()));
  ErrorMetrics exact;
  exact.Add(std::vector<float>{1, 2}, std::vector<float>{1, 2});
  EXPECT_EQ(exact.SqnrDb(), std::numeric_limits<double>::infinity());
  ErrorMetrics zero;
  zero.Add(std::vector<float>{0, 0}, std::vector<float>{0, 1});
  EXPECT_TRUE(std::isnan(zero.SqnrDb()));
  EXPECT_TRUE(std::isnan(zero.Cosine()));
}

TEST(ErrorMetrics, LeavesOutWhatIsNotFinite) {
  std::vector<float> x = Normal(5000, 1, 2);
  std::vector<float> y = Rounded(x, 0.5f);
  ErrorMetrics plain;
  plain.Add(x, y);
  // In the places of pairs that add nothing to any sum.
  x[10] = y[10] = 0;
  x[4999] = y[4999] = 0;
  ErrorMetrics with_zeros;
  with_zeros.Add(x, y);
  x[10] = kInf;
  y[4999] = std::numeric_limits<float>::quiet_NaN();
  ErrorMetrics metrics;
  metrics.Add(x, y);
  EXPECT_EQ(metrics.non_finite(), 2u);
  EXPECT_EQ(metrics.count(), 4998u);
  EXPECT_EQ(metrics.SqnrDb(), with_zeros.SqnrDb());  // to the last bit: sums of fixed pieces
  EXPECT_NE(metrics.SqnrDb(), plain.SqnrDb());
}

TEST(ErrorMetrics, DoesNotDependOnThreads) {
  const std::vector<float> x = Normal((1 << 19) + 77, 1, 3);
  const std::vector<float> y = Rounded(x, 0.01f);
  SetThreads(1);
  ErrorMetrics one;
  one.Add(x, y);
  SetThreads(4);
  ErrorMetrics four;
  four.Add(x, y);
  SetThreads(0);
  EXPECT_EQ(one.NoiseEnergy(), four.NoiseEnergy());
  EXPECT_EQ(one.SignalEnergy(), four.SignalEnergy());
  EXPECT_EQ(one.Cosine(), four.Cosine());
  ErrorMetrics pieces;  // what the pieces of 4096 give one after the other
  for (size_t i = 0; i < x.size(); i += 4096) {
    const size_t n = std::min<size_t>(4096, x.size() - i);
    pieces.Add(std::span(x).subspan(i, n), std::span(y).subspan(i, n));
  }
  EXPECT_EQ(one.NoiseEnergy(), pieces.NoiseEnergy());
}

TEST(ErrorMetrics, CountsRanges) {
  const std::vector<float> x = {0, 1, -2, 3, -4, 5, kInf, std::nanf("")};
  ErrorMetrics metrics;
  metrics.CountRange(x, 0.5f, 8.0f, 3.0f);  // |x| / 0.5 >= 8: 4 and 5; |x| > 3: 4 and 5
  EXPECT_DOUBLE_EQ(metrics.SaturationRate(), 2.0 / 6);
  EXPECT_DOUBLE_EQ(metrics.ExceededRate(), 2.0 / 6);
  ErrorMetrics more;
  more.CountRange(x, 1.0f, 2.0f, 4.5f);
  metrics.Merge(more);
  EXPECT_DOUBLE_EQ(metrics.SaturationRate(), 6.0 / 12);
  EXPECT_DOUBLE_EQ(metrics.ExceededRate(), 3.0 / 12);
}

}  // namespace
}  // namespace hif8
