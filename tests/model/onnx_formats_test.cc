// Every number format and kind of scale in a written model, run by a stock ONNX Runtime and
// compared with the simulation: the functions of lib/numeric, and products summed in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "formats/builtin.h"
#include "lib/model/onnx/onnx_writer.h"
#include "lib/numeric/scale_codes.h"
#include "tests/model/onnx_builder.h"
#include "tests/model/onnx_quantize.h"
#include "tests/model/onnx_stock.h"

namespace hif8 {
namespace {

// How weights are cut, and activations.
struct Scheme {
  std::string name;
  std::string format;
  TileScales::Tile weight{1, kWholeEdge};
  TileScaling activation;
};

std::vector<Scheme> Schemes() {
  std::vector<Scheme> schemes;
  for (const std::string& name : BuiltinFormats().names()) {
    const NumberFormat& format = BuiltinFormats().Get(name);
    const std::span<const TileScales> tiles = format.storage().tiles;
    if (format.storage().tiled) {
      for (const TileScales& own : tiles) {
        schemes.push_back({name + "_" + std::string(NameOf(own.granularity)),
                           name,
                           own.weight,
                           {own.activation, format.DefaultTarget(), false, 3.7F}});
      }
      continue;
    }
    const TileScales& groups = *format.TilesFor(Granularity::kGroup);
    const TileScales& blocks = *format.TilesFor(Granularity::kBlock);
    const float target = format.TokenTarget();
    schemes.push_back({name + "_token", name, {1, kWholeEdge}, {.target = target}});
    schemes.push_back({name + "_group", name, groups.weight, {groups.activation, target, true}});
    schemes.push_back(
        {name + "_tensor", name, {kWholeEdge, kWholeEdge}, {blocks.activation, target}});
  }
  return schemes;
}

// From the largest magnitude of each tile.
EncodedWeight Encode(const OnnxModel& model, int index, const Scheme& scheme) {
  const Weight& weight = model.weights()[static_cast<size_t>(index)];
  const NumberFormat& format = BuiltinFormats().Get(scheme.format);
  EncodedWeight encoded;
  encoded.format = scheme.format;
  encoded.layout = scheme.weight.rows == kWholeEdge
                       ? TileLayout(ChannelLayout::PerTensor(weight.size()))
                       : WeightTiles(weight.channels, scheme.weight);
  const Tensor values = model.ReadWeight(index);
  std::vector<float> buffer;
  float amax = 0;
  for (const float value : AsFloats(values.view, &buffer)) amax = std::max(amax, std::fabs(value));
  encoded.global_scale = GlobalScale(format, amax, format.DefaultTarget());
  encoded.scales = FindScales(values.view, encoded.layout, format,
                              {scheme.weight, format.DefaultTarget(), false, encoded.global_scale});
  encoded.codes.resize(encoded.layout.size());
  EncodeTiles(format, values.view, encoded.layout, encoded.scales, encoded.codes);
  return encoded;
}

std::vector<float> Decoded(const EncodedWeight& encoded) {
  std::vector<float> values(encoded.codes.size());
  DecodeTiles(BuiltinFormats().Get(encoded.format), encoded.codes, encoded.layout, encoded.scales,
              values);
  return values;
}

std::vector<float> Rounded(const Scheme& scheme, int axis, const Shape& shape,
                           std::vector<float> x) {
  QuantizeDequantizeDynamic(BuiltinFormats().Get(scheme.format), scheme.activation, axis, shape, x,
                            x);
  return x;
}

OnnxWritePlan PlanOf(const OnnxModel& model, const Scheme& scheme) {
  OnnxWritePlan plan;
  plan.quantized.assign(model.layers().size(), true);
  for (size_t i = 0; i < model.activations().size(); ++i) {
    FakeQuantize& scale = plan.activations[static_cast<int>(i)];
    scale.format = &BuiltinFormats().Get(scheme.format);
    scale.dynamic = scheme.activation;
  }
  plan.encode = [&](int weight) { return Encode(model, weight, scheme); };
  return plan;
}

void ExpectClose(const std::vector<float>& expected, const std::vector<float>& found) {
  ASSERT_EQ(expected.size(), found.size());
  double most = 0;
  for (const float value : expected) most = std::max(most, std::fabs(static_cast<double>(value)));
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(expected[i], found[i], 1e-5 * most) << "element " << i;
  }
}

// Spread over many binades, with a token of zeros.
std::vector<float> Activations(size_t rows, size_t columns, uint32_t seed) {
  std::vector<float> x = Numbers(rows * columns, seed);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= std::ldexp(1.0F, static_cast<int>(i * 7 % 23) - 12);
  std::fill_n(x.begin() + static_cast<ptrdiff_t>(columns), columns, 0.0F);
  return x;
}

void ExpectStandardOperators(const onnx::ModelProto& model, int64_t ir_version) {
  EXPECT_EQ(model.functions_size(), 0);
  EXPECT_EQ(model.opset_import_size(), 1);
  EXPECT_EQ(model.ir_version(), ir_version) << "functions need 8, operators do not";
  for (const onnx::NodeProto& node : model.graph().node()) EXPECT_EQ(node.domain(), "");
}

class OnnxFormats : public ::testing::TestWithParam<int> {
 protected:
  void ExpectReadBack(const OnnxModel& model, const Scheme& scheme) {
    const auto artifact = OnnxArtifact::Open(out_.path(), BuiltinFormats());
    for (size_t i = 0; i < model.weights().size(); ++i) {
      const EncodedWeight written = Encode(model, static_cast<int>(i), scheme);
      const EncodedWeight read = artifact->ReadCodes(model.weights()[i].name);
      EXPECT_EQ(read.format, written.format);
      EXPECT_EQ(read.codes, written.codes);
      EXPECT_EQ(read.scales, written.scales);
      EXPECT_EQ(Decoded(read), Decoded(written));
    }
  }

  TestFolder in_, out_;
};

// [2, 3, 70] x [70, 33], then with the first dimensions joined a Gemm of [33, 5], stored [5, 33]:
// no size is a multiple of a tile, and 33 columns leave half a byte of packed codes.
TEST_P(OnnxFormats, MatMulAndGemm) {
  ModelBuilder b(GetParam());
  b.Input("x", {-1, 3, 70}).Weight("w", {70, 33}, Numbers(70 * 33, 3)).Output("z");
  b.Weight("v", {5, 33}, Numbers(5 * 33, 4)).Ints("flat", {2}, {-1, 33});
  b.Node("MatMul", {"x", "w"}, {"y"});
  b.Node("Reshape", {"y", "flat"}, {"rows"});
  b.Weight("c", {5}, std::vector<float>(5, 0));
  SetAttribute(b.Node("Gemm", {"rows", "v", "c"}, {"z"}), "transB", 1);
  b.model().set_ir_version(7);
  const auto model = LoadModel(b.Save(in_.path()));
  const std::vector<float> x = Activations(6, 70, 5);
  for (const Scheme& scheme : Schemes()) {
    SCOPED_TRACE(scheme.name);
    WriteOnnxModel(*model, PlanOf(*model, scheme), BuiltinFormats(), out_.path(), NullLog());
    ExpectReadBack(*model, scheme);
    const std::vector<float> w = Decoded(Encode(*model, 0, scheme));
    const std::vector<float> v = Decoded(Encode(*model, 1, scheme));
    std::vector<float> turned(v.size());
    for (size_t i = 0; i < v.size(); ++i) turned[i % 33 * 5 + i / 33] = v[i];
    const auto found =
        RunStock(out_ / "model.onnx", {{"x", FloatInput({2, 3, 70}, x)}})["z"].values;
    // The Gemm rounds what the first product gave it, which two programs sum in another order.
    const std::vector<float> y = Product(Rounded(scheme, -1, {2, 3, 70}, x), w, 6, 70, 33);
    const std::vector<float> z = Product(Rounded(scheme, -1, {6, 33}, y), turned, 6, 33, 5);
    double signal = 0, noise = 0;
    ASSERT_EQ(z.size(), found.size());
    for (size_t i = 0; i < z.size(); ++i) {
      signal += static_cast<double>(z[i]) * z[i];
      noise += (static_cast<double>(z[i]) - found[i]) * (static_cast<double>(z[i]) - found[i]);
    }
    EXPECT_GT(signal, 1e3 * noise);  // a value on a tie may fall to the other side

    // Without functions: the same bits.
    OnnxWritePlan inlined = PlanOf(*model, scheme);
    inlined.inlined = true;
    WriteOnnxModel(*model, inlined, BuiltinFormats(), out_.path(), NullLog());
    ExpectStandardOperators(ParseFile(out_ / "model.onnx"), 7);
    EXPECT_EQ(RunStock(out_ / "model.onnx", {{"x", FloatInput({2, 3, 70}, x)}})["z"].values, found);
    ExpectReadBack(*model, scheme);
  }
}

// The rounding alone: a weight of 1 is exact in every format, each value of x is a token or group.
TEST_P(OnnxFormats, ActivationsRoundAsSimulated) {
  ModelBuilder b(GetParam());
  std::vector<float> identity(40 * 40, 0);
  for (size_t i = 0; i < 40; ++i) identity[i * 40 + i] = 1;
  b.Input("x", {-1, 40}).Weight("w", {40, 40}, identity).Output("y");
  b.Node("MatMul", {"x", "w"}, {"y"});
  const auto model = LoadModel(b.Save(in_.path()));
  std::vector<float> x = Activations(50, 40, 6);
  for (size_t i = 400; i < 800; ++i) x[i] = std::ldexp(x[i], static_cast<int>(i % 40) * 6 - 120);
  for (const Scheme& scheme : Schemes()) {
    SCOPED_TRACE(scheme.name);
    OnnxWritePlan plan = PlanOf(*model, scheme);
    plan.encode = [&](int weight) {
      return Encode(*model, weight, {"", "hif8", {1, kWholeEdge}, {}});
    };
    WriteOnnxModel(*model, plan, BuiltinFormats(), out_.path(), NullLog());
    const auto found = RunStock(out_ / "model.onnx", {{"x", FloatInput({50, 40}, x)}})["y"].values;
    const std::vector<float> expected = Rounded(scheme, -1, {50, 40}, x);
    ASSERT_EQ(expected.size(), found.size());
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(expected[i], found[i]) << i << ": " << x[i];
  }
}

// Channels are the second dimension of an image.
TEST_P(OnnxFormats, Conv) {
  ModelBuilder b(GetParam());
  b.Input("x", {-1, 35, 2, 2}).Weight("w", {4, 35, 1, 1}, Numbers(4 * 35, 7)).Output("y");
  b.Node("Conv", {"x", "w"}, {"y"});
  const auto model = LoadModel(b.Save(in_.path()));
  const std::vector<float> x = Activations(3, 35 * 4, 8);
  for (const Scheme& scheme : Schemes()) {
    SCOPED_TRACE(scheme.name);
    WriteOnnxModel(*model, PlanOf(*model, scheme), BuiltinFormats(), out_.path(), NullLog());
    ExpectReadBack(*model, scheme);
    const auto found =
        RunStock(out_ / "model.onnx", {{"x", FloatInput({3, 35, 2, 2}, x)}})["y"].values;
    const std::vector<float> rounded = Rounded(scheme, 1, {3, 35, 2, 2}, x);
    const std::vector<float> w = Decoded(Encode(*model, 0, scheme));
    std::vector<float> expected;
    for (size_t n = 0; n < 3; ++n) {
      for (size_t o = 0; o < 4; ++o) {
        for (size_t p = 0; p < 4; ++p) {
          double sum = 0;
          for (size_t c = 0; c < 35; ++c) {
            sum += static_cast<double>(rounded[(n * 35 + c) * 4 + p]) * w[o * 35 + c];
          }
          expected.push_back(static_cast<float>(sum));
        }
      }
    }
    ExpectClose(expected, found);
  }
}

// The sizes that the product sums over are known only when it runs.
TEST_P(OnnxFormats, ProductsOfActivations) {
  ModelBuilder b(GetParam());
  b.Input("p", {-1, -1, -1}).Input("v", {-1, -1, -1}).Output("y");
  b.Node("MatMul", {"p", "v"}, {"y"});
  const auto model = LoadModel(b.Save(in_.path()));
  for (const Scheme& scheme : Schemes()) {
    SCOPED_TRACE(scheme.name);
    WriteOnnxModel(*model, PlanOf(*model, scheme), BuiltinFormats(), out_.path(), NullLog());
    for (const int64_t size : {70, 5}) {
      const auto inner = static_cast<size_t>(size);
      const std::vector<float> p = Activations(2 * 3, inner, 9);
      const std::vector<float> v = Activations(2 * inner, 4, 10);
      const auto found = RunStock(out_ / "model.onnx", {{"p", FloatInput({2, 3, size}, p)},
                                                        {"v", FloatInput({2, size, 4}, v)}})["y"]
                             .values;
      const std::vector<float> a = Rounded(scheme, -1, {2, 3, size}, p);
      const std::vector<float> w = Rounded(scheme, -2, {2, size, 4}, v);
      std::vector<float> expected;
      for (size_t matrix = 0; matrix < 2; ++matrix) {
        const auto half = [&](const std::vector<float>& x) {
          const auto begin = x.begin() + static_cast<ptrdiff_t>(matrix * x.size() / 2);
          return std::vector<float>(begin, begin + static_cast<ptrdiff_t>(x.size() / 2));
        };
        const std::vector<float> y = Product(half(a), half(w), 3, inner, 4);
        expected.insert(expected.end(), y.begin(), y.end());
      }
      ExpectClose(expected, found);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Opsets, OnnxFormats, ::testing::Values(9, 13, 18, 21),
                         [](const auto& tested) { return "opset" + std::to_string(tested.param); });

// FP8 codes are of a standard type where the operator set has them.
TEST(OnnxStandardFormats, CodesHaveTheirOwnTypes) {
  const auto types = [](int opset, const std::string& format) {
    TestFolder in, out;
    ModelBuilder b(opset);
    b.Input("x", {-1, 8}).Weight("w", {8, 4}, Numbers(32, 1)).Output("y");
    b.Node("MatMul", {"x", "w"}, {"y"});
    const auto model = LoadModel(b.Save(in.path()));
    const Scheme scheme{"", format, {1, kWholeEdge}, {}};
    WriteOnnxModel(*model, PlanOf(*model, scheme), BuiltinFormats(), out.path(), NullLog());
    const onnx::ModelProto written = ParseFile(out / "model.onnx");
    std::string domain = "none";
    for (const onnx::NodeProto& node : written.graph().node()) {
      if (node.op_type() == "DequantizeLinear") domain = node.domain();
    }
    return std::pair(FindTensor(written.graph(), "w_codes")->data_type(), domain);
  };
  using Found = std::pair<int, std::string>;
  EXPECT_EQ(types(19, "fp8_e4m3"), Found(17, ""));
  EXPECT_EQ(types(19, "fp8_e5m2"), Found(19, ""));
  EXPECT_EQ(types(18, "fp8_e4m3"), Found(onnx::TensorProto::UINT8, "ai.fp8_e4m3"));
  EXPECT_EQ(types(21, "int8"), Found(onnx::TensorProto::UINT8, "ai.int8"));
  EXPECT_EQ(types(21, "hif8"), Found(onnx::TensorProto::UINT8, "ai.hif8"));
}

}  // namespace
}  // namespace hif8
