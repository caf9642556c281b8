#include "lib/quant/weight_quantizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/core/parallel.h"

namespace hif8 {
namespace {

struct Case {
  const char* name;
  ChannelLayout layout;
};

// Every kind of layout, with sizes that do not divide the parallel pieces.
const Case kCases[] = {{"linear", {1, 1, 131, 517}},       {"tensor", {1, 1, 1, 70001}},
                       {"matmul", {1, 517, 131, 1}},       {"batched matmul", {3, 57, 401, 1}},
                       {"conv transpose", {1, 37, 61, 9}}, {"wide row", {1, 2, 70001, 1}},
                       {"one element", {1, 1, 1, 1}},      {"empty", {1, 1, 0, 5}}};

std::vector<float> RandomValues(size_t n) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

TensorView View(const std::vector<float>& values) {
  TensorView view;
  view.shape = {static_cast<int64_t>(values.size())};
  view.data = reinterpret_cast<const std::byte*>(values.data());
  return view;
}

// Scale index of element i, straight from the definition of the layout.
size_t ScaleIndex(const ChannelLayout& layout, size_t i) {
  const size_t c = i / layout.inner % layout.channels;
  const size_t b = i / (layout.inner * layout.channels * layout.outer);
  return b * layout.channels + c;
}

TEST(WeightQuantizer, MatchesThePlainDefinition) {
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  for (const Case& c : kCases) {
    const std::vector<float> values = RandomValues(c.layout.size());
    std::vector<float> amax(c.layout.scale_count(), 0);
    for (size_t i = 0; i < values.size(); ++i) {
      float& m = amax[ScaleIndex(c.layout, i)];
      m = std::max(m, std::fabs(values[i]));
    }
    ScaleParams params;
    params.target = 16;
    WeightScales solved =
        SolveWeight("w", View(values), c.layout, BuiltinCalibrators().Get("max"), format, params);
    ASSERT_EQ(solved.scales.size(), amax.size()) << c.name;
    for (size_t s = 0; s < amax.size(); ++s) {
      EXPECT_EQ(solved.scales[s], amax[s] / 16.0F) << c.name << " scale " << s;
    }
    const EncodedWeight encoded = EncodeWeight(View(values), c.layout, solved.scales, format);
    std::vector<float> decoded(values.size());
    DecodeWeight(encoded, format, decoded);
    double signal = 0;
    double noise = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const float scale = solved.scales[ScaleIndex(c.layout, i)];
      const uint8_t code = format.EncodeOne(values[i] / scale, Overflow::kSaturate);
      ASSERT_EQ(encoded.codes[i], code) << c.name << " element " << i;
      ASSERT_EQ(decoded[i], format.DecodeTable()[code] * scale) << c.name << " element " << i;
      signal += static_cast<double>(values[i]) * values[i];
      noise += std::pow(static_cast<double>(values[i]) - decoded[i], 2);
    }
    const ErrorMetrics metrics = MeasureWeight(View(values), encoded, format);
    if (noise > 0) {
      EXPECT_NEAR(metrics.SqnrDb(), 10 * std::log10(signal / noise), 1e-9) << c.name;
    }
    EXPECT_EQ(metrics.count(), values.size()) << c.name;
  }
}

TEST(WeightQuantizer, ThreadsDoNotChangeResults) {
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  const ChannelLayout layout{1, 517, 1310, 1};
  const std::vector<float> values = RandomValues(layout.size());
  const auto run = [&](int threads) {
    SetThreads(threads);
    WeightScales solved =
        SolveWeight("w", View(values), layout, BuiltinCalibrators().Get("mse"), format, {});
    EncodedWeight encoded = EncodeWeight(View(values), layout, solved.scales, format);
    const double sqnr = MeasureWeight(View(values), encoded, format).SqnrDb();
    SetThreads(0);
    return std::tuple(encoded.scales, encoded.codes, sqnr);
  };
  EXPECT_EQ(run(1), run(4));
}

TEST(WeightQuantizer, HalfAndDoubleAreTheirFloatValues) {
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  const std::vector<float> values = RandomValues(1000);
  const ChannelLayout layout{1, 1, 10, 100};
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF64}) {
    std::vector<std::byte> bytes(values.size() * DTypeSize(dtype) + 1);
    ConvertFromFloat(dtype, values.data(), values.size(), bytes.data() + 1);
    TensorView odd{dtype, {10, 100}, bytes.data() + 1};
    std::vector<float> stored(values.size());
    ConvertToFloat(dtype, odd.data, stored.size(), stored.data());
    const auto encode = [&](const TensorView& view) {
      WeightScales solved =
          SolveWeight("w", view, layout, BuiltinCalibrators().Get("max"), format, {});
      return EncodeWeight(view, layout, solved.scales, format);
    };
    EXPECT_EQ(encode(odd).codes, encode(View(stored)).codes) << DTypeName(dtype);
    EXPECT_EQ(encode(odd).scales, encode(View(stored)).scales) << DTypeName(dtype);
  }
}

TEST(WeightQuantizer, NonFiniteWeightsAreNamed) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values = RandomValues(100);
    values[37] = bad;
    try {
      SolveWeight("encoder.weight", View(values), ChannelLayout{1, 10, 10, 1},
                  BuiltinCalibrators().Get("max"), BuiltinFormats().Get("hif8"), {});
      FAIL() << "accepted " << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kModel);
      EXPECT_NE(error.message().find("'encoder.weight' at element 37"), std::string::npos)
          << error.message();
    }
  }
}

}  // namespace
}  // namespace hif8
