// Scales, codes and errors of a weight are the same bits for any number of threads.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <ostream>
#include <random>
#include <vector>

#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "lib/core/parallel.h"
#include "lib/quant/weight_quantizer.h"

namespace hif8 {
namespace {

struct Case {
  const char* name;
  Shape shape;
  ChannelLayout layout;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

// Large enough for several pieces each, with sizes that no piece divides.
const Case kCases[] = {
    {"linear", {301, 517}, {1, 1, 301, 517}},
    {"matmul", {517, 301}, {1, 517, 301, 1}},
    {"batched_matmul", {3, 129, 257}, {3, 129, 257, 1}},
    {"conv_transpose", {65, 33, 9, 5}, {1, 65, 33, 45}},
    {"tensor", {150017}, {1, 1, 1, 150017}},
};

std::vector<float> Values(size_t n) {
  std::mt19937 random(20);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random) * (random() % 97 == 0 ? 50.0f : 1.0f);
  return values;
}

struct Result {
  WeightScales scales;
  EncodedWeight encoded;
  std::vector<float> decoded;
  ErrorMetrics error;
};

Result Quantize(const Case& c, const std::vector<float>& values, const char* rule, int threads) {
  SetThreads(threads);
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  const TensorView weight{DType::kF32, c.shape, reinterpret_cast<const std::byte*>(values.data())};
  Result result;
  result.scales =
      SolveWeight("w", weight, c.layout, BuiltinCalibrators().Get(rule), format, ScaleParams());
  result.encoded = EncodeWeight(weight, c.layout, result.scales.scales, format);
  result.decoded.resize(values.size());
  DecodeWeight(result.encoded, format, result.decoded);
  result.error = MeasureWeight(weight, result.encoded, format);
  SetThreads(0);
  return result;
}

class WeightConcurrency : public testing::TestWithParam<Case> {};

TEST_P(WeightConcurrency, BitsDoNotDependOnThreads) {
  const Case& c = GetParam();
  const std::vector<float> values = Values(c.layout.size());
  for (const char* rule : {"max", "percentile"}) {
    const Result one = Quantize(c, values, rule, 1);
    ASSERT_EQ(one.scales.scales.size(), c.layout.scale_count());
    for (const int threads : {2, 3, 8}) {
      const Result many = Quantize(c, values, rule, threads);
      EXPECT_EQ(many.scales.scales, one.scales.scales) << rule << ", " << threads << " threads";
      EXPECT_EQ(many.scales.amax, one.scales.amax);
      EXPECT_EQ(many.encoded.codes, one.encoded.codes) << rule << ", " << threads << " threads";
      EXPECT_EQ(many.decoded, one.decoded);
      EXPECT_EQ(std::bit_cast<uint64_t>(many.error.SqnrDb()),
                std::bit_cast<uint64_t>(one.error.SqnrDb()))
          << rule << ", " << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, WeightConcurrency, testing::ValuesIn(kCases),
                         [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace hif8
