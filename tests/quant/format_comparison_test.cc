// Operands under other formats and rules against a plain double-precision computation of each.
#include "lib/quant/format_comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "tests/quant/fake_model.h"
#include "tests/quant/layer_source.h"

namespace hif8 {
namespace {

constexpr size_t kRows = 6;
constexpr size_t kInputs = 200;  // not a multiple of 32 or 128: tails

using Matrix = std::vector<double>;  // rows of kInputs values

std::vector<float> Values(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::student_t_distribution<float> t(4);
  std::vector<float> values(n);
  for (float& v : values) {
    // In BF16: records of activations keep such magnitudes as they are.
    v = std::bit_cast<float>(std::bit_cast<uint32_t>(t(random) * 0.02F) & 0xFFFF0000U);
  }
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
// From 2^-15 on: ties away from zero, 4, 3 or 2 significant bits.
double HiF8(double x) {
  if (std::fabs(x) < 0x1p-15) return x;  // few, and of no weight
  const int e = std::ilogb(x);
  const int bits = std::abs(e) <= 3 ? 3 : std::abs(e) <= 7 ? 2 : 1;
  const double step = std::ldexp(1.0, e - bits);
  return std::clamp(std::round(x / step) * step, -32768.0, 32768.0);
}

struct Plain {
  std::function<double(double)> round;
  const char* format;
  double target;
  size_t weight_rows, rows;  // tile of a weight and of an activation: rows ...
  size_t inputs;             // ... by inputs; 0: all
  int emax;                  // exponent of the largest value, for E8M0 scales
  bool power_of_two;
};
const Plain kPlain[] = {{HiF8, "hif8", 16, 1, 0, 0, 0, false},
                        {E4M3, "fp8_e4m3", 448, 1, 0, 0, 0, false},
                        {E5M2, "fp8_e5m2", 57344, 1, 0, 0, 0, false},
                        {E4M3, "fp8_e4m3_block", 448, 128, 1, 128, 0, false},
                        {E4M3, "mxfp8", 448, 1, 1, 32, 8, true},
                        {E2M1, "mxfp4", 6, 1, 1, 32, 2, true},
                        {Int8, "int8", 127, 1, 0, 0, 0, false}};

const Plain& PlainOf(const std::string& format) {
  return *std::find_if(std::begin(kPlain), std::end(kPlain),
                       [&](const Plain& plain) { return format == plain.format; });
}

double SquaredError(const Matrix& tile, const Plain& plain, double scale) {
  double sum = 0;
  for (const double v : tile) sum += std::pow(v - scale * plain.round(v / scale), 2);
  return sum;
}

// Twelfths of an octave around the scale of `max`, four octaves each way, then quarters of these
// around every one that is as good as the best to 1 %; `dense`: around all.
double LeastError(const Matrix& tile, const Plain& plain, double largest, bool dense) {
  std::vector<double> scales;
  for (int k = -48; k <= 48; ++k) scales.push_back(largest * std::exp2(k / 12.0));
  const auto error = [&](double scale) { return SquaredError(tile, plain, scale); };
  const auto best = [&] {
    return *std::min_element(scales.begin(), scales.end(),
                             [&](double a, double b) { return error(a) < error(b); });
  };
  const double limit = dense ? std::numeric_limits<double>::infinity() : 1.01 * error(best());
  for (const double scale : std::vector<double>(scales)) {
    if (error(scale) > limit) continue;
    for (int j = -3; j <= 3; ++j) scales.push_back(scale * std::exp2(j / 48.0));
  }
  return best();
}

double ScaleOf(const Matrix& tile, const Plain& plain, const std::string& rule, double percentile) {
  Matrix magnitudes;
  for (const double v : tile) magnitudes.push_back(std::fabs(v));
  std::sort(magnitudes.begin(), magnitudes.end());
  const double amax = magnitudes.back();
  if (plain.power_of_two) return std::exp2(std::floor(std::log2(amax)) - plain.emax);
  if (rule == "percentile") {
    const auto count = static_cast<double>(magnitudes.size());
    const auto rank = static_cast<size_t>(std::ceil(percentile / 100 * count));
    return magnitudes[rank - 1] / plain.target;
  }
  const bool dense = rule == "mse, dense";
  if (!dense && rule != "mse") return amax / plain.target;
  return LeastError(tile, plain, amax / plain.target, dense);
}

// Values in tiles of tile_rows (0: all) rows, rounded; `clip`: to the target first.
Matrix Rounded(const std::vector<float>& x, const Plain& plain, size_t tile_rows,
               const std::string& rule = "max", double percentile = 100, bool clip = false) {
  const size_t rows = x.size() / kInputs;
  const size_t height = tile_rows == 0 ? rows : tile_rows;
  const size_t width = plain.inputs == 0 ? kInputs : plain.inputs;
  Matrix y(x.size());
  for (size_t r0 = 0; r0 < rows; r0 += height) {
    for (size_t c0 = 0; c0 < kInputs; c0 += width) {
      std::vector<size_t> places;
      Matrix tile;
      for (size_t r = r0; r < std::min(rows, r0 + height); ++r) {
        for (size_t c = c0; c < std::min(kInputs, c0 + width); ++c) {
          places.push_back(r * kInputs + c);
          tile.push_back(x[places.back()]);
        }
      }
      const double scale = ScaleOf(tile, plain, rule, percentile);
      const double most = clip ? plain.target : std::numeric_limits<double>::infinity();
      for (const size_t i : places) {
        y[i] = scale * plain.round(std::clamp(x[i] / scale, -most, most));
      }
    }
  }
  return y;
}

// x W^T
Matrix Product(const Matrix& x, const Matrix& w) {
  Matrix y;
  for (size_t r = 0; r < x.size() / kInputs; ++r) {
    for (size_t o = 0; o < w.size() / kInputs; ++o) {
      double sum = 0;
      for (size_t k = 0; k < kInputs; ++k) sum += x[r * kInputs + k] * w[o * kInputs + k];
      y.push_back(sum);
    }
  }
  return y;
}

double Sqnr(const Matrix& x, const Matrix& y) {
  double signal = 0;
  double noise = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    signal += x[i] * x[i];
    noise += std::pow(x[i] - y[i], 2);
  }
  return 10 * std::log10(signal / noise);
}

class FormatComparisonTest : public testing::Test {
 protected:
  FormatComparisonTest() {
    model_.AddLinear("fc", kRows, kInputs, weight_);
    stats_[0].Add(Sample(0));
    stats_[0].Add(Sample(1));
  }

  // Two samples: static scales come from both, tiles from each.
  TensorView Sample(size_t i) const {
    return View(std::span(inputs_).subspan(i * 4 * kInputs, 4 * kInputs), {4, kInputs});
  }

  std::vector<ComparedOperand> Compare(const std::vector<FormatChoice>& choices,
                                       const std::string& recipe = "") {
    const ParseContext context{BuiltinFormats(), BuiltinCalibrators()};
    const QuantPlan plan =
        MakePlan(model_, ParseRecipe("version: 1\n" + recipe, "r", context), context);
    FormatComparison comparison(model_, plan, choices, stats_, &source_);
    comparison.CompareWeights();
    comparison.AddActivation(0, Sample(0));
    comparison.AddActivation(0, Sample(1));
    return comparison.Results();
  }

  // Holds the rows of one choice against rounded operands.
  void Check(const std::vector<ComparedOperand>& results, const std::string& name, const Matrix& wq,
             const Matrix& xq) {
    const Matrix w(weight_.begin(), weight_.end());
    const Matrix x(inputs_.begin(), inputs_.end());
    const std::map<std::string, double> expected = {
        {"weight", Sqnr(w, wq)},
        {"activation", Sqnr(x, xq)},
        {"output", Sqnr(Product(x, w), Product(xq, wq))}};
    size_t found = 0;
    for (const ComparedOperand& result : results) {
      if (result.format != name) continue;
      ++found;
      EXPECT_NEAR(result.error.SqnrDb(), expected.at(result.operand), 0.02)
          << name << " " << result.operand;
    }
    EXPECT_EQ(found, 3u) << name;
  }

  static FormatChoice Choice(const std::string& format, const std::string& rule = "") {
    return {&BuiltinFormats().Get(format),
            rule.empty() ? nullptr : &BuiltinCalibrators().Get(rule)};
  }

  FakeModel model_;
  const std::vector<float> weight_ = Values(kRows * kInputs, 1);
  const std::vector<float> inputs_ = Values(2 * 4 * kInputs, 2);
  std::vector<TensorStats> stats_{1};
  LayerSource source_{model_};
};

TEST_F(FormatComparisonTest, FormatsEqualAPlainComputation) {
  std::vector<FormatChoice> formats;
  for (const Plain& plain : kPlain) formats.push_back(Choice(plain.format));
  const std::vector<ComparedOperand> results = Compare(formats);
  EXPECT_EQ(results.size(), 3 * std::size(kPlain));
  for (const Plain& plain : kPlain) {
    Check(results, plain.format, Rounded(weight_, plain, plain.weight_rows),
          Rounded(inputs_, plain, plain.rows));
  }
}

TEST_F(FormatComparisonTest, RulesEqualBruteForce) {
  std::vector<FormatChoice> choices = {Choice("hif8")};
  for (const char* format : {"hif8", "fp8_e4m3", "int8"}) {
    for (const char* rule : {"max", "percentile", "mse"}) choices.push_back(Choice(format, rule));
  }
  for (const bool clip : {false, true}) {
    const std::string clipped = clip ? ", clip: true" : "";
    const std::vector<ComparedOperand> results = Compare(
        choices, "weights: {percentile: 99}\nactivations: {percentile: 98" + clipped + "}\n");
    EXPECT_EQ(results.size(), 3 * choices.size());
    for (const FormatChoice& choice : choices) {
      const Plain& plain = PlainOf(std::string(choice.format->name()));
      const std::string rule(choice.rule == nullptr ? "max" : choice.rule->name());
      // Weights of formats with a wide band are searched densely.
      const bool dense = rule == "mse" && choice.format->name() != "int8";
      const std::string of_weights = dense ? "mse, dense" : rule;
      Check(results, choice.Name(), Rounded(weight_, plain, plain.weight_rows, of_weights, 99),
            Rounded(inputs_, plain, plain.rows, rule, 98, clip));
    }
  }
}

TEST_F(FormatComparisonTest, OperandsThatARecipeCouldNotGiveTheRuleAreLeftOut) {
  const auto operands = [&](const FormatChoice& choice, const std::string& recipe) {
    std::set<std::string> found;
    for (const ComparedOperand& row : Compare({choice}, recipe)) found.insert(row.operand);
    return found;
  };
  using Names = std::set<std::string>;
  const Names all = {"weight", "activation", "output"};
  EXPECT_EQ(operands(Choice("hif8", "ema"), ""), Names{"activation"}) << "not a rule of weights";
  EXPECT_EQ(operands(Choice("hif8", "cast"), ""), all);
  EXPECT_EQ(operands(Choice("hif8", "mse"), "activations: {rule: cast}\n"), all);
  const std::string token = "activations: {granularity: token}\n";
  EXPECT_EQ(operands(Choice("hif8", "mse"), token), Names{"weight"});
  EXPECT_EQ(operands(Choice("hif8", "max"), token), all);
  EXPECT_EQ(operands(Choice("fp8_e4m3_block", "mse"), ""), Names{"weight"});
  model_.mutable_activations().front().mixed_axes = true;
  EXPECT_EQ(operands(Choice("mxfp8"), ""), Names{"weight"});
  EXPECT_EQ(operands(Choice("int8"), ""), all);
  // A cache is no layer with a weight.
  Layer& layer = model_.mutable_layers().front();
  layer.kind = LayerKind::kCache;
  layer.name = "attention.v";
  layer.weight = -1;
  layer.optional = true;
  const std::string cache = "kv_cache: {rule: max}\n";
  EXPECT_EQ(operands(Choice("hif8", "mse"), cache), Names{"v"});
  EXPECT_EQ(operands(Choice("hif8", "ema"), cache), Names());
}

}  // namespace
}  // namespace hif8
