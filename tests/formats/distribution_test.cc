// Signal-to-noise ratios of every format on four distributions, through the public interface,
// against a float64 computation of this file alone that rounds by arithmetic, without tables or
// codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "formats/builtin.h"
#include "lib/numeric/block_scale.h"
#include "lib/numeric/error_metrics.h"
#include "lib/numeric/scale_codes.h"
#include "lib/numeric/tile_scaling.h"

namespace hif8 {
namespace {

constexpr size_t kChannels = 256;
constexpr size_t kValues = 4096;

// Uniform in (0, 1), the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  double Uniform() { return (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53; }
  double Normal() {
    return std::sqrt(-2 * std::log(Uniform())) * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  std::mt19937_64 engine_;
};

std::vector<float> Draw(const std::string& distribution) {
  Random random(20240917);
  std::vector<float> x(kChannels * kValues);
  for (float& value : x) {
    double v = 0;
    if (distribution == "normal") {
      v = 0.02 * random.Normal();
    } else if (distribution == "laplace") {
      const double u = random.Uniform() - 0.5;
      v = 0.02 * std::copysign(std::log(1 - 2 * std::fabs(u)), u);
    } else if (distribution == "student") {
      const double normal = random.Normal();
      double squares = 0;
      for (int i = 0; i < 4; ++i) squares += std::pow(random.Normal(), 2);
      v = 0.02 * normal / std::sqrt(squares / 4);
    } else {
      v = random.Normal();
      if (random.Uniform() < 0.001) v *= 60;
    }
    value = static_cast<float>(v);
  }
  return x;
}

// x rounded to a multiple of 2^step.
double RoundTo(double x, int step, bool ties_away) {
  const double units = std::ldexp(x, -step);
  return std::ldexp(ties_away ? std::round(units) : std::nearbyint(units), step);
}

double Exponent(double x) { return std::floor(std::log2(std::fabs(x))); }

double Hif8(double x) {
  if (std::fabs(x) < 0x1p-23) return 0;
  const int e = std::max(-22, static_cast<int>(Exponent(x)));
  const int away = std::abs(e);
  const int mantissa_bits = away <= 3 ? 3 : away <= 7 ? 2 : away <= 15 ? 1 : 0;
  const double y = RoundTo(x, e - mantissa_bits, true);
  return std::clamp(y == 0 ? std::copysign(0x1p-22, x) : y, -32768.0, 32768.0);
}

double Float(double x, int mantissa_bits, int least_exponent, double largest) {
  if (x == 0) return 0;
  const int e = std::max(least_exponent, static_cast<int>(Exponent(x)));
  return std::clamp(RoundTo(x, e - mantissa_bits, false), -largest, largest);
}

double RoundReference(const std::string& format, double x) {
  if (format == "hif8") return Hif8(x);
  if (format == "fp8_e5m2") return Float(x, 2, -14, 57344);
  if (format == "mxfp4" || format == "nvfp4") return Float(x, 1, 0, 6);
  if (format == "int8") return std::clamp(std::nearbyint(x), -127.0, 127.0);
  return Float(x, 3, -6, 448);
}

// One row of the table: a format, its scales, and what the specification reports for the four
// distributions.
struct Column {
  std::string format;
  std::string scales;  // none, channel, group, block
  double db[4];
  double tolerance[4];  // of another draw of the same size
};
const std::vector<std::string> kDistributions = {"normal", "laplace", "student", "outliers"};
const std::vector<Column> kColumns = {
    {"hif8", "none", {25.4, 25.7, 26.0, 26.3}, {0.15, 0.15, 0.8, 0.9}},
    {"hif8", "channel", {31.5, 31.6, 31.7, 34.3}, {0.15, 0.15, 0.8, 0.9}},
    {"fp8_e4m3", "channel", {31.5, 31.6, 31.7, 34.2}, {0.15, 0.15, 0.8, 0.9}},
    {"fp8_e5m2", "channel", {25.6, 25.6, 25.7, 28.4}, {0.15, 0.15, 0.8, 0.9}},
    {"mxfp8", "group", {30.7, 30.1, 29.9, 28.1}, {0.15, 0.15, 0.8, 0.9}},
    {"mxfp4", "group", {18.9, 18.0, 17.6, 16.8}, {0.15, 0.15, 0.8, 0.9}},
    {"int8", "channel", {41.2, 36.9, 31.2, 20.1}, {0.2, 0.2, 0.8, 0.9}},
    {"nvfp4", "group", {20.4, 20.7, 20.7, 23.4}, {0.15, 0.15, 0.8, 0.9}},
    {"fp8_e4m3_block", "block", {0, 0, 0, 0}, {99, 99, 99, 99}},
};

double ReferenceDb(const Column& column, const std::vector<float>& x) {
  const size_t rows = column.scales == "block" ? 128 : 1;
  const bool nvfp4 = column.format == "nvfp4";
  const size_t group = nvfp4 ? 16 : 32;
  const size_t width = column.scales == "group" ? group : column.scales == "block" ? 128 : kValues;
  double most = 0;
  for (const float value : x) most = std::max(most, std::fabs(double{value}));
  const double target = column.format == "hif8"       ? 16
                        : column.format == "fp8_e5m2" ? 57344
                        : column.format == "int8"     ? 127
                                                      : 448;
  double signal = 0, noise = 0;
  for (size_t row = 0; row < kChannels; row += rows) {
    for (size_t begin = 0; begin < kValues; begin += width) {
      double amax = 0;
      const auto visit = [&](const auto& body) {
        for (size_t r = row; r < row + rows; ++r) {
          for (size_t c = begin; c < begin + width; ++c) body(double{x[r * kValues + c]});
        }
      };
      visit([&](double v) { amax = std::max(amax, std::fabs(v)); });
      double scale = amax / target;
      if (column.scales == "none") scale = 1;
      if (nvfp4) {
        const double global = 448 * 6 / most;
        scale = std::max(Float(amax / 6 * global, 3, -6, 448), 0x1p-9) / global;
      } else if (column.scales == "group") {
        scale = std::exp2(Exponent(amax) - (column.format == "mxfp4" ? 2 : 8));
      }
      visit([&](double v) {
        const double error = v - scale * RoundReference(column.format, v / scale);
        signal += v * v;
        noise += error * error;
      });
    }
  }
  return 10 * std::log10(signal / noise);
}

double MeasuredDb(const Column& column, const std::vector<float>& x) {
  const NumberFormat& format = BuiltinFormats().Get(column.format);
  const Shape shape{kChannels, kValues};
  TileLayout layout = TileLayout::PerChannel(shape, 0);
  if (column.scales == "none") layout = TileLayout::PerTensor(shape);
  if (const TileScales* tiles = format.OwnTiles()) {
    layout = TileLayout::Tiles(shape, 0, 1, tiles->weight);
  }
  std::vector<float> scales(layout.scale_count(), 1.0F);
  const TensorView view{DType::kF32, shape, reinterpret_cast<const std::byte*>(x.data())};
  TileScaling scaling{.target = format.DefaultTarget()};
  scaling.global_scale = GlobalScale(
      format, std::fabs(*std::ranges::max_element(x, {}, [](float v) { return std::fabs(v); })),
      scaling.target);
  if (column.scales != "none") {
    ForEachTile(view, layout, [&](size_t index, std::span<const float> values) {
      float amax = 0;
      for (const float value : values) amax = std::max(amax, std::fabs(value));
      scales[index] = scaling.ScaleOf(amax, format);
    });
  }
  std::vector<float> y(x.size());
  QuantizeDequantizeTiles(format, x, layout, scales, y);
  ErrorMetrics metrics;
  metrics.Add(x, y);
  return metrics.SqnrDb();
}

class Distribution : public testing::TestWithParam<size_t> {};

TEST_P(Distribution, SqnrAgreesWithFloat64) {
  const std::vector<float> x = Draw(kDistributions[GetParam()]);
  for (const Column& column : kColumns) {
    SCOPED_TRACE(column.format + ", scales: " + column.scales);
    const double measured = MeasuredDb(column, x);
    EXPECT_NEAR(measured, ReferenceDb(column, x), 0.02);
    EXPECT_NEAR(measured, column.db[GetParam()], column.tolerance[GetParam()] + 0.05);
  }
}

INSTANTIATE_TEST_SUITE_P(Draws, Distribution, testing::Range(size_t{0}, kDistributions.size()),
                         [](const auto& tested) { return kDistributions[tested.param]; });

}  // namespace
}  // namespace hif8
