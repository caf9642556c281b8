#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "calibrators/builtin.h"
#include "calibrators/tail_sums.h"
#include "formats/builtin.h"
#include "tests/calibrators/plain_format.h"

namespace hif8 {
namespace {

// Every candidate of both rounds, each value quantized by a search of the table.
struct BruteForce {
  double max_error = 0;
  double best_error = 0;
  double best_scale = 0;

  BruteForce(std::span<const float> x, const NumberFormat& format) {
    float amax = 0;
    for (const float v : x) amax = std::max(amax, std::abs(v));
    const float s_max = amax / format.DefaultTarget();
    best_error = max_error = PlainError(x, format, s_max);
    best_scale = s_max;
    const auto take = [&](double scale) {
      const double error = PlainError(x, format, scale);
      if (error < best_error) {
        best_error = error;
        best_scale = scale;
      }
    };
    for (int k = -48; k <= 48; ++k) take(s_max * std::exp2(k / 12.0));
    const double middle = best_scale;
    for (int j = -3; j <= 3; ++j) take(middle * std::exp2(j / 48.0));
  }
};

double Decibel(double ratio) { return 10 * std::log10(ratio); }

class MseTest : public testing::Test {
 protected:
  const Calibrator& rule_ = BuiltinCalibrators().Get("mse");
  const PlainFormat steps_ = Steps();
  const PlainFormat floating_ = Floating();
  const std::vector<const NumberFormat*> formats_ = {&BuiltinFormats().Get("hif8"), &floating_,
                                                     &steps_};
};

TEST_F(MseTest, AgreesWithBruteForce) {
  for (const NumberFormat* format : formats_) {
    for (const size_t n : {40, 700, 2500}) {
      for (int shape = 0; shape < 5; ++shape) {
        std::vector<float> x = Draw(static_cast<Shape1D>(shape), n, static_cast<uint32_t>(n) + 17);
        if (shape % 2 == 1) RoundToBf16(&x);
        SCOPED_TRACE(std::string(format->name()) + " n " + std::to_string(n) + " shape " +
                     std::to_string(shape));
        const BruteForce brute(x, *format);
        const double weights = PlainError(x, *format, rule_.Solve(x, *format, {}).scale);
        EXPECT_LT(Decibel(weights / brute.best_error), 0.01);
        EXPECT_LE(weights, brute.max_error * (1 + 1e-6));
        const double streamed = PlainError(x, *format, rule_.Solve(Record(x), *format, {}).scale);
        EXPECT_LT(Decibel(streamed / brute.best_error), 0.05);
      }
    }
  }
}

// Among all quarter steps of all octaves, not only around the best of the first round.
TEST_F(MseTest, FewValuesAreSearchedDensely) {
  for (const std::string name : {"hif8", "fp8_e4m3", "fp8_e5m2"}) {
    const NumberFormat& format = BuiltinFormats().Get(name);
    for (const size_t n : {1, 9, 25, 130, 1000, 4096}) {
      for (int shape = 0; shape < 5; ++shape) {
        const std::vector<float> x = Draw(static_cast<Shape1D>(shape), n, 31);
        SCOPED_TRACE(name + " n " + std::to_string(n) + " shape " + std::to_string(shape));
        float amax = 0;
        double energy = 0;
        for (const float v : x) amax = std::max(amax, std::abs(v));
        for (const float v : x) energy += static_cast<double>(v) * static_cast<double>(v);
        double least = std::numeric_limits<double>::infinity();
        for (int at = -192; at <= 192; ++at) {
          const float scale =
              amax / format.DefaultTarget() * std::exp2(static_cast<float>(at) / 48);
          least = std::min(least, PlainError(x, format, scale));
        }
        const double found = PlainError(x, format, rule_.Solve(x, format, {}).scale);
        EXPECT_LE(found, least * (1 + 2e-4) + 1e-12 * energy);
      }
    }
  }
}

// Values on a few points, where the true error can be zero at one scale only.
TEST_F(MseTest, NeverWorseThanMaxOnDiscreteValues) {
  for (const NumberFormat* format : formats_) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
      std::vector<float> x = Draw(Shape1D::kNormal, 600 + 50 * seed, seed);
      float amax = 0;
      for (const float v : x) amax = std::max(amax, std::abs(v));
      const float step = amax / 127;
      for (float& v : x) v = std::nearbyint(v / step) * step;
      const float plain = BuiltinCalibrators().Get("max").Solve(x, *format, {}).scale;
      const float chosen = rule_.Solve(x, *format, {}).scale;
      // What is compared is what is written: fp32 products of scale and code.
      const auto error = [&](float scale) {
        std::vector<float> y(x.size());
        format->QuantizeDequantize(x, ScaleOperand::One(scale), y);
        double sum = 0;
        for (size_t i = 0; i < x.size(); ++i) {
          sum += (static_cast<double>(x[i]) - y[i]) * (static_cast<double>(x[i]) - y[i]);
        }
        return sum;
      };
      EXPECT_LE(error(chosen), error(plain) * (1 + 1e-12)) << format->name() << " seed " << seed;
    }
  }
}

// HiF8 has the same precision at 16 and 8 and 1: a value that is exact at one of them is at all.
TEST_F(MseTest, TiesGoToTheScaleOfMax) {
  const std::vector<float> small = {2.0F, -2.0F, 1.0F};
  const std::vector<float> large(3000, -4.0F);
  for (const NumberFormat* format : formats_) {
    if (format->name() == "steps") continue;
    for (const std::vector<float>& x : {small, large}) {
      ScaleParams params;
      params.target = 8;
      float amax = std::abs(x[0]);
      EXPECT_EQ(rule_.Solve(x, *format, params).scale, amax / 8) << format->name();
      EXPECT_EQ(rule_.Solve(Record(x), *format, params).scale, amax / 8) << format->name();
    }
  }
}

TEST_F(MseTest, MoreValuesThanAHistogramHolds) {
  std::vector<float> x(MagnitudeHistogram::kCapacity + 5000);
  const std::vector<float> part = Draw(Shape1D::kLaplace, 100000, 2);
  for (size_t i = 0; i < x.size(); ++i) x[i] = part[i % part.size()];
  const NumberFormat& format = *formats_[0];
  const BruteForce brute(part, format);
  const double found = PlainError(part, format, rule_.Solve(x, format, {}).scale);
  EXPECT_LT(Decibel(found / brute.best_error), 0.01);
}

TEST_F(MseTest, FewerCandidates) {
  const std::vector<float> x = Draw(Shape1D::kNormal, 2000, 9);
  ScaleParams params;
  params.mse.steps_per_octave = 1;
  params.mse.octaves = 0.5;  // rounds to one step on either side
  const float s_max = BuiltinCalibrators().Get("max").Solve(x, *formats_[0], {}).scale;
  const float scale = rule_.Solve(x, *formats_[0], params).scale;
  EXPECT_GE(scale, s_max / 4);
  EXPECT_LE(scale, s_max * 4);
  params.power_of_two = true;
  int exponent;
  EXPECT_EQ(std::frexp(rule_.Solve(x, *formats_[0], params).scale, &exponent), 0.5F);
}

// The same without chains: threshold by threshold.
DecisionSteps Unchained(const DecisionSteps& steps) {
  DecisionSteps unchained = steps;
  unchained.chains.clear();
  return unchained;
}

TEST(TailSums, ThresholdsOfFloatingPointFormatsAreChains) {
  const DecisionSteps steps(BuiltinFormats().Get("hif8").DecodeTable());
  std::vector<std::pair<double, double>> expected;
  for (size_t i = 0; i < steps.threshold.size(); ++i) {
    expected.emplace_back(steps.threshold[i], steps.step[i]);
  }
  std::vector<std::pair<double, double>> found;
  for (const DecisionSteps::Chain& chain : steps.chains) {
    for (int i = 0; i < chain.length; ++i) {
      found.emplace_back(std::ldexp(chain.threshold, i), std::ldexp(chain.step, i));
    }
  }
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, expected);
  EXPECT_LT(steps.chains.size() * 4, expected.size());
  EXPECT_TRUE(DecisionSteps(BuiltinFormats().Get("int8").DecodeTable()).chains.empty());
}

TEST(TailSums, ErrorsAreThoseOfRoundedValues) {
  const PlainFormat steps = Steps();
  const PlainFormat floating = Floating();
  for (const NumberFormat* format :
       {static_cast<const NumberFormat*>(&steps), static_cast<const NumberFormat*>(&floating),
        &BuiltinFormats().Get("hif8")}) {
    const DecisionSteps decisions(format->DecodeTable());
    for (const double factor : {1.0, 1e-34, 1e36}) {
      std::vector<float> x = Draw(Shape1D::kHeavyTail, 4000, 3);
      for (float& v : x) v = static_cast<float>(v * factor);
      MagnitudeHistogram histogram;
      const RunSummary summary = histogram.Add(x);
      TailSums from_values;
      from_values.Reset(&histogram, summary, x.size());
      const RecordSums from_record(Record(x).Bins());
      const double scale = std::bit_cast<float>(summary.amax_bits) / 11.0;
      const DecisionSteps unchained = Unchained(decisions);
      TailSums grouped = from_values;
      grouped.Group(x);
      for (size_t i = 0; i < 21; ++i) {
        SCOPED_TRACE(std::string(format->name()) + " " + std::to_string(factor) + " " +
                     std::to_string(i));
        const double s = std::ldexp(scale, static_cast<int>(i) - 10);
        const double error = from_values.SquaredError(decisions, s);
        EXPECT_NEAR(error / from_values.SquaredError(unchained, s), 1, 1e-9);
        const double plain = PlainError(x, *format, s);
        EXPECT_NEAR(from_record.SquaredError(decisions, s) / plain, 1, 0.01);
        // Energies within a bin are rounded: 2^-7 of the energy of the error's own size at most.
        EXPECT_NEAR(grouped.ExactError(decisions, s), plain, 1e-5 * plain);
        EXPECT_NEAR(error, plain, from_values.Uncertainty(decisions, s) + 1e-3 * plain);
      }
      // The histogram was left empty, below the segments too.
      for (uint32_t bin = 0; bin < kFiniteBins; ++bin) ASSERT_TRUE(histogram.Empty(bin)) << bin;
      const RunSummary again = histogram.Add(x);
      TailSums repeated;
      repeated.Reset(&histogram, again, x.size());
      EXPECT_EQ(repeated.SquaredError(decisions, scale),
                from_values.SquaredError(decisions, scale));
    }
  }
}

TEST(TailSums, SubnormalValues) {
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  const DecisionSteps decisions(format.DecodeTable());
  std::vector<float> x = Draw(Shape1D::kNormal, 4000, 3);
  for (float& v : x) v *= 1e-37F;
  MagnitudeHistogram histogram;
  const RunSummary summary = histogram.Add(x);
  TailSums sums;
  sums.Reset(&histogram, summary, x.size());
  for (int j = -4; j <= 4; ++j) {
    const double scale = std::ldexp(1e-39, j);
    EXPECT_EQ(sums.SquaredError(decisions, scale), sums.SquaredError(Unchained(decisions), scale));
  }
}

}  // namespace
}  // namespace hif8
