// Operands under other formats against a plain double-precision computation of each format.
#include "lib/quant/format_comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "tests/quant/fake_model.h"
#include "tests/quant/layer_source.h"

namespace hif8 {
namespace {

constexpr size_t kRows = 6;
constexpr size_t kInputs = 200;  // not a multiple of 32 or 128: tails

std::vector<float> Values(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::student_t_distribution<float> t(4);
  std::vector<float> values(n);
  for (float& v : values) v = t(random) * 0.02F;
  return values;
}

// Rounds to `bits` significant bits, not below the quantum 2^min_exponent, ties to even, and clips.
double RoundFloat(double x, int bits, int min_exponent, double max) {
  if (x == 0) return 0;
  int exponent = 0;
  std::frexp(x, &exponent);  // |x| in [2^(exponent - 1), 2^exponent)
  const double quantum = std::ldexp(1.0, std::max(exponent - bits, min_exponent));
  const double y = std::nearbyint(x / quantum) * quantum;
  return std::clamp(y, -max, max);
}
double E4M3(double x) { return RoundFloat(x, 4, -9, 448); }
double E5M2(double x) { return RoundFloat(x, 3, -16, 57344); }
double E2M1(double x) { return RoundFloat(x, 2, -1, 6); }
double Int8(double x) { return std::clamp(std::nearbyint(x), -127.0, 127.0); }

struct Plain {
  const char* format;
  std::function<double(double)> round;
  double max;                // of the elements
  int emax;                  // exponent of max, for E8M0 scales
  size_t weight_rows, rows;  // tile of a weight and of an activation: rows ...
  size_t inputs;             // ... by inputs; 0: all
  bool power_of_two;
};
const Plain kPlain[] = {{"fp8_e4m3", E4M3, 448, 0, 1, 0, 0, false},
                        {"fp8_e5m2", E5M2, 57344, 0, 1, 0, 0, false},
                        {"fp8_e4m3_block", E4M3, 448, 0, 128, 1, 128, false},
                        {"mxfp8", E4M3, 448, 8, 1, 1, 32, true},
                        {"mxfp4", E2M1, 6, 2, 1, 1, 32, true},
                        {"int8", Int8, 127, 0, 1, 0, 0, false}};

// SQNR of rows x kInputs values in tiles of tile_rows x tile_inputs (0: all).
double PlainSqnr(const std::vector<float>& x, const Plain& plain, size_t tile_rows) {
  const size_t rows = x.size() / kInputs;
  const size_t height = tile_rows == 0 ? rows : tile_rows;
  const size_t width = plain.inputs == 0 ? kInputs : plain.inputs;
  double signal = 0;
  double noise = 0;
  for (size_t r0 = 0; r0 < rows; r0 += height) {
    for (size_t c0 = 0; c0 < kInputs; c0 += width) {
      std::vector<double> tile;
      for (size_t r = r0; r < std::min(rows, r0 + height); ++r) {
        for (size_t c = c0; c < std::min(kInputs, c0 + width); ++c)
          tile.push_back(x[r * kInputs + c]);
      }
      double amax = 0;
      for (const double v : tile) amax = std::max(amax, std::fabs(v));
      const double scale = plain.power_of_two ? std::exp2(std::floor(std::log2(amax)) - plain.emax)
                                              : amax / plain.max;
      for (const double v : tile) {
        signal += v * v;
        noise += std::pow(v - scale * plain.round(v / scale), 2);
      }
    }
  }
  return 10 * std::log10(signal / noise);
}

// Values in tiles of tile_rows x tile_inputs (0: all), rounded.
std::vector<double> PlainRounded(const std::vector<float>& x, const Plain& plain,
                                 size_t tile_rows) {
  const size_t rows = x.size() / kInputs;
  const size_t height = tile_rows == 0 ? rows : tile_rows;
  const size_t width = plain.inputs == 0 ? kInputs : plain.inputs;
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t r0 = i / kInputs / height * height;
    const size_t c0 = i % kInputs / width * width;
    double amax = 0;
    for (size_t r = r0; r < std::min(rows, r0 + height); ++r) {
      for (size_t c = c0; c < std::min(kInputs, c0 + width); ++c) {
        amax = std::max(amax, std::fabs(static_cast<double>(x[r * kInputs + c])));
      }
    }
    const double scale =
        plain.power_of_two ? std::exp2(std::floor(std::log2(amax)) - plain.emax) : amax / plain.max;
    y[i] = scale * plain.round(x[i] / scale);
  }
  return y;
}

// Layer by layer, the SQNR of x W^T from rounded operands.
double PlainOutputSqnr(const std::vector<float>& x, const std::vector<float>& w,
                       const Plain& plain) {
  const std::vector<double> xq = PlainRounded(x, plain, plain.rows);
  const std::vector<double> wq = PlainRounded(w, plain, plain.weight_rows);
  double signal = 0;
  double noise = 0;
  for (size_t r = 0; r < x.size() / kInputs; ++r) {
    for (size_t o = 0; o < kRows; ++o) {
      double y = 0;
      double yq = 0;
      for (size_t k = 0; k < kInputs; ++k) {
        y += static_cast<double>(x[r * kInputs + k]) * w[o * kInputs + k];
        yq += xq[r * kInputs + k] * wq[o * kInputs + k];
      }
      signal += y * y;
      noise += (y - yq) * (y - yq);
    }
  }
  return 10 * std::log10(signal / noise);
}

TEST(FormatComparison, EqualsAPlainComputation) {
  FakeModel model;
  const std::vector<float> weight = Values(kRows * kInputs, 1);
  model.AddLinear("fc", kRows, kInputs, weight);
  const ParseContext context{BuiltinFormats(), BuiltinCalibrators()};
  const QuantPlan plan = MakePlan(model, ParseRecipe("version: 1\n", "r", context), context);

  // Two samples: static scales come from both, tiles from each.
  const std::vector<float> inputs = Values(2 * 4 * kInputs, 2);
  const auto view = [&](size_t sample) {
    TensorView x;
    x.shape = {4, kInputs};
    x.data = reinterpret_cast<const std::byte*>(inputs.data() + sample * 4 * kInputs);
    return x;
  };
  std::vector<TensorStats> stats(1);
  stats[0].Add(view(0));
  stats[0].Add(view(1));

  std::vector<const NumberFormat*> formats;
  for (const Plain& plain : kPlain) formats.push_back(&BuiltinFormats().Get(plain.format));
  const LayerSource source(model);
  FormatComparison comparison(model, plan, formats, stats, &source);
  comparison.CompareWeights();
  comparison.AddActivation(0, view(0));
  comparison.AddActivation(0, view(1));
  const std::vector<ComparedOperand> results = comparison.Results();
  ASSERT_EQ(results.size(), 3 * std::size(kPlain));
  for (const ComparedOperand& result : results) {
    for (const Plain& plain : kPlain) {
      if (result.format != plain.format) continue;
      const bool is_weight = result.operand == "weight";
      const double expected = is_weight ? PlainSqnr(weight, plain, plain.weight_rows)
                              : result.operand == "output" ? PlainOutputSqnr(inputs, weight, plain)
                                                           : PlainSqnr(inputs, plain, plain.rows);
      EXPECT_NEAR(result.error.SqnrDb(), expected, 0.02) << result.format << " " << result.operand;
    }
  }
}

}  // namespace
}  // namespace hif8
