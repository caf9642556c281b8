// The functions that give codes their meaning, run by a stock ONNX Runtime.
#include "lib/model/onnx/functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "formats/builtin.h"
#include "tests/model/onnx_builder.h"
#include "tests/model/onnx_stock.h"

namespace hif8 {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kMost = std::numeric_limits<float>::max();

// The function alone, as a model of its own.
std::filesystem::path FunctionModel(const TestFolder& folder, const onnx::FunctionProto& function,
                                    int opset, DType input) {
  ModelBuilder b(opset);
  b.Input(function.input(0), {-1}, input).Input("scale", {}).Output("y");
  *b.model().add_functions() = function;
  auto* import = b.model().add_opset_import();
  import->set_domain(function.domain());
  import->set_version(1);
  b.Node(function.name(), {function.input(0), "scale"}, {"y"})->set_domain(function.domain());
  return b.Save(folder.path());
}

std::vector<float> RunFunction(const TestFolder& folder, const NumberFormat& format, int opset,
                               const std::vector<float>& x, float scale) {
  const auto path =
      FunctionModel(folder, MakeQuantizeDequantizeFunction(format, opset), opset, DType::kF32);
  return RunStock(path, {{"x", FloatInput({static_cast<int64_t>(x.size())}, x)},
                         {"scale", FloatInput({}, {scale})}})["y"]
      .values;
}

void ExpectSameBits(const std::vector<float>& x, const std::vector<float>& expected,
                    const std::vector<float>& found) {
  ASSERT_EQ(expected.size(), found.size());
  int wrong = 0;
  for (size_t i = 0; i < x.size() && wrong < 5; ++i) {
    if (std::isnan(expected[i]) && std::isnan(found[i])) continue;
    if (std::bit_cast<uint32_t>(expected[i]) == std::bit_cast<uint32_t>(found[i])) continue;
    ADD_FAILURE() << std::hexfloat << "x " << x[i] << " expected " << expected[i] << " found "
                  << found[i];
    ++wrong;
  }
}

// Every bf16 pattern, and both neighbours of every boundary between two values of the format.
std::vector<float> Interesting(std::span<const float> table) {
  std::vector<float> x;
  for (uint32_t i = 0; i < 65536; ++i) x.push_back(std::bit_cast<float>(i << 16));
  std::vector<float> values;
  for (const float v : table) {
    if (std::isfinite(v) && v >= 0) values.push_back(v);
  }
  std::sort(values.begin(), values.end());
  values.push_back(values.back() * 1.25F);
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    const float middle = (values[i] + values[i + 1]) / 2;
    for (const float v :
         {middle, std::nextafter(middle, 0.0F), std::nextafter(middle, kInf), values[i],
          std::nextafter(values[i], 0.0F), std::nextafter(values[i], kInf)}) {
      x.push_back(v);
      x.push_back(-v);
    }
  }
  return x;
}

TEST(OnnxFunctions, RoundsToTheGoldenGridInEveryOpset) {
  TestFolder folder;
  const std::vector<float> golden = GoldenValues();
  const std::vector<float> x = Interesting(golden);
  std::vector<float> expected;
  expected.reserve(x.size());
  for (const float v : x) expected.push_back(GoldenRound(v, golden));
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  for (const int opset : {9, 11, 13, 17, 21}) {
    SCOPED_TRACE(opset);
    ExpectSameBits(x, expected, RunFunction(folder, format, opset, x, 1.0F));
  }
}

TEST(OnnxFunctions, EveryFormatRoundsAsItsCodec) {
  TestFolder folder;
  int formats = 0;
  for (const std::string& name : BuiltinFormats().names()) {
    SCOPED_TRACE(name);
    const NumberFormat& format = BuiltinFormats().Get(name);
    const std::vector<float> x = Interesting(format.DecodeTable());
    for (const float scale : {1.0F, 0.037F, 3e-38F, 7e30F}) {
      std::vector<float> expected;
      for (const float v : x) {
        const float scaled = std::clamp(v / scale, -kMost, kMost);
        const float q = format.DecodeTable()[format.EncodeOne(scaled, Overflow::kSaturate)];
        // What rounds to zero is +0 whatever its sign.
        expected.push_back(std::isfinite(v) ? (q == 0 ? 0.0F : q * scale) : v);
      }
      for (const int opset :
           {10, 13}) {  // bounds of Clip are attributes in one, inputs in the other
        ExpectSameBits(x, expected, RunFunction(folder, format, opset, x, scale));
      }
    }
    ++formats;
  }
  EXPECT_GE(formats, 3);
}

bool Has(const onnx::FunctionProto& function, const std::string& op) {
  return std::any_of(function.node().begin(), function.node().end(),
                     [&](const onnx::NodeProto& node) { return node.op_type() == op; });
}

TEST(OnnxFunctions, BuiltInFormatsAreComputedFromTheLastPlaceOfAValue) {
  for (const std::string& name : BuiltinFormats().names()) {
    SCOPED_TRACE(name);
    const NumberFormat& format = BuiltinFormats().Get(name);
    const auto grid = FindBandedGrid(MakeRoundingTable(format));
    ASSERT_TRUE(grid.has_value());
    const bool hif8 = name == "hif8";
    EXPECT_EQ(grid->edges, hif8 ? std::vector<int>({3, 7, 15}) : std::vector<int>());
    EXPECT_EQ(grid->ties_to_even, !hif8);
    EXPECT_EQ(grid->uniform(), name == "int8");
    const auto function = MakeQuantizeDequantizeFunction(format, 9);
    // What is slow in a stock runtime: logarithms and powers one by one, look-ups, three passes of
    // Where.
    for (const char* op : {"Log", "Pow", "Gather", "Where"}) EXPECT_FALSE(Has(function, op)) << op;
    EXPECT_EQ(function.domain(), "ai." + name);
  }
}

// Three values that no power of two has to do with.
class OddFormat : public NumberFormat {
 public:
  std::string_view name() const override { return "odd"; }
  std::string_view description() const override { return ""; }
  std::span<const float> DecodeTable() const override { return table_; }
  float OverflowThreshold() const override { return 13.5F; }
  float DefaultTarget() const override { return 10; }
  uint8_t EncodeOne(float x, Overflow /*overflow*/) const override {
    const float y = std::clamp(x, -10.0F, 10.0F);
    uint8_t best = 0;
    for (size_t code = 1; code < table_.size(); ++code) {
      const bool nearer = std::fabs(table_[code] - y) < std::fabs(table_[best] - y);
      if (nearer) best = static_cast<uint8_t>(code);
    }
    return best;
  }
  void Encode(DType /*dtype*/, const std::byte* /*x*/, ScaleOperand /*scale*/,
              std::span<uint8_t> /*codes*/, Overflow /*overflow*/) const override {
    FAIL();
  }
  void Decode(std::span<const uint8_t> /*codes*/, ScaleOperand /*scale*/,
              std::span<float> /*y*/) const override {
    FAIL();
  }
  void QuantizeDequantize(std::span<const float> /*x*/, ScaleOperand /*scale*/,
                          std::span<float> /*y*/) const override {
    FAIL();
  }

 private:
  std::vector<float> table_ = {0, 1, 3.7F, 10, -1, -3.7F, -10};
};

TEST(OnnxFunctions, AnyOtherGridIsSearched) {
  TestFolder folder;
  const OddFormat format;
  EXPECT_FALSE(FindBandedGrid(MakeRoundingTable(format)).has_value());
  EXPECT_TRUE(Has(MakeQuantizeDequantizeFunction(format, 9), "Gather"));
  const std::vector<float> x = {0, 0.4F, -0.6F, 2, -3, 6.8F, 6.9F, -1e30F, kInf, -kInf, NAN};
  const std::vector<float> rounded = {0, 0, -1, 1, -3.7F, 3.7F, 10, -10, kInf, -kInf, NAN};
  ExpectSameBits(x, rounded, RunFunction(folder, format, 9, x, 1.0F));
}

TEST(OnnxFunctions, DecodesEveryCode) {
  TestFolder folder;
  const std::vector<float> golden = GoldenValues();
  for (const int opset : {9, 13, 21}) {
    const auto path = FunctionModel(
        folder, MakeDequantizeFunction(BuiltinFormats().Get("hif8"), opset), opset, DType::kU8);
    std::byte* data = nullptr;
    Tensor codes = Tensor::Allocate(DType::kU8, {256}, &data);
    for (int i = 0; i < 256; ++i) data[i] = static_cast<std::byte>(i);
    std::vector<float> expected;
    expected.reserve(golden.size());
    for (const float v : golden) expected.push_back(v * 0.3F);
    ExpectSameBits(
        golden, expected,
        RunStock(path, {{"codes", codes}, {"scale", FloatInput({}, {0.3F})}})["y"].values);
  }
}

}  // namespace
}  // namespace hif8
