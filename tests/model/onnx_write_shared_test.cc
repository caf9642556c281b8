// Weights that several nodes read, directly, through chains of constants or from inside branches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "formats/builtin.h"
#include "lib/model/onnx/onnx_writer.h"
#include "tests/model/onnx_builder.h"
#include "tests/model/onnx_quantize.h"
#include "tests/model/onnx_stock.h"

namespace hif8 {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

// Two layers read one weight, their inputs lie a hundred times apart.
TEST(OnnxWriteShared, SharedWeightIsStoredOnce) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("a", {1, 4}).Input("b", {1, 4}).Output("y").Output("z");
  b.Weight("w", {4, 4}, Numbers(16, 1));
  b.Node("MatMul", {"a", "w"}, {"y"}, "one");
  b.Node("MatMul", {"b", "w"}, {"z"}, "two");
  const auto model = LoadModel(b.Save(folder.path(), "in.onnx"));
  const ReferenceQuantizer quantizer(*model);
  OnnxWritePlan plan = quantizer.PlanAll();
  plan.activations[0].scale = 1.0F / 16;
  plan.activations[1].scale = 100.0F / 16;
  int encoded = 0;
  plan.encode = [&](int index) {
    ++encoded;
    return quantizer.Encode(index);
  };
  const auto written = WriteOnnxModel(*model, plan, BuiltinFormats(), folder.path(), NullLog());
  EXPECT_EQ(encoded, 1);
  const std::vector<float> x = Numbers(4, 3);
  std::vector<float> large;
  large.reserve(x.size());
  for (const float v : x) large.push_back(v * 100);
  auto result =
      RunStock(written.model, {{"a", FloatInput({1, 4}, x)}, {"b", FloatInput({1, 4}, large)}});
  const std::vector<float> w = quantizer.Decoded(quantizer.Encode(0));
  EXPECT_THAT(result["y"].values,
              Pointwise(FloatNear(1e-5F), Product(quantizer.Round(x, 1.0F / 16), w, 1, 4, 4)));
  EXPECT_THAT(result["z"].values,
              Pointwise(FloatNear(1e-3F), Product(quantizer.Round(large, 6.25F), w, 1, 4, 4)));
}

TEST(OnnxWriteShared, AKeptLayerReadsTheOriginalOfASharedWeight) {
  TestFolder folder;
  const std::vector<float> stored = Numbers(16, 1);
  ModelBuilder b;
  b.Input("x", {1, 4}).Output("y").Output("z").Output("s").Weight("w", {4, 4}, stored);
  b.Node("Transpose", {"w"}, {"t"}, "turn");
  b.Node("MatMul", {"x", "t"}, {"y"}, "quantized");
  b.Node("MatMul", {"x", "t"}, {"z"}, "kept");
  b.Node("ReduceSum", {"w"}, {"s"});
  const auto model = LoadModel(b.Save(folder.path(), "in.onnx"));
  const ReferenceQuantizer quantizer(*model);
  OnnxWritePlan plan = quantizer.PlanAll();
  plan.quantized[1] = false;
  plan.activations.clear();
  const auto written = WriteOnnxModel(*model, plan, BuiltinFormats(), folder.path(), NullLog());
  const onnx::ModelProto out = ParseFile(written.model);
  ASSERT_NE(FindTensor(out.graph(), "w"), nullptr);
  EXPECT_EQ(FindTensor(out.graph(), "w")->raw_data(), b.tensor("w")->raw_data());
  ASSERT_NE(FindTensor(out.graph(), "w_codes"), nullptr);
  const std::vector<float> x = Numbers(4, 3);
  auto result = RunStock(written.model, {{"x", FloatInput({1, 4}, x)}});
  const auto turned = [](const std::vector<float>& v) {
    std::vector<float> t(16);
    for (size_t i = 0; i < 16; ++i) t[i % 4 * 4 + i / 4] = v[i];
    return t;
  };
  const std::vector<float> decoded = quantizer.Decoded(quantizer.Encode(0));
  EXPECT_THAT(result["y"].values,
              Pointwise(FloatNear(1e-5F), Product(x, turned(decoded), 1, 4, 4)));
  EXPECT_THAT(result["z"].values, Pointwise(FloatNear(1e-5F), Product(x, turned(stored), 1, 4, 4)));
}

TEST(OnnxWriteShared, AChainThatOnlyQuantizedLayersReadIsNotStoredTwice) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("x", {1, 4}).Output("y").Output("z").Weight("w", {4, 4}, Numbers(16, 1));
  b.Node("Transpose", {"w"}, {"t"}, "turn");
  b.Node("MatMul", {"x", "t"}, {"y"}, "quantized");
  b.Node("MatMul", {"x", "w"}, {"z"}, "kept");
  const auto model = LoadModel(b.Save(folder.path(), "in.onnx"));
  OnnxWritePlan plan = ReferenceQuantizer(*model).PlanAll();
  plan.quantized[1] = false;
  const auto written = WriteOnnxModel(*model, plan, BuiltinFormats(), folder.path(), NullLog());
  EXPECT_THAT(
      OpTypes(ParseFile(written.model).graph()),
      ElementsAre("DequantizeLinear", "Transpose", "QuantizeDequantizeLinear", "MatMul", "MatMul"));
  RunStock(written.model, {{"x", FloatInput({1, 4}, Numbers(4, 3))}});
}

TEST(OnnxWriteShared, ConstantChainsStayBehindTheCodes) {
  const auto check = [](const Shape& stored, const std::function<void(GraphBuilder&)>& chain) {
    TestFolder folder;
    const auto build = [&](const std::vector<float>& w, const std::string& name) {
      ModelBuilder b;
      b.Input("x", {2, 5}).Output("y").Weight("w", stored, w);
      chain(b);
      b.Node("MatMul", {"x", "v"}, {"y"}, "layer");
      return b.Save(folder.path(), name);
    };
    const auto model = LoadModel(build(Numbers(ElementCount(stored), 1), "in.onnx"));
    const ReferenceQuantizer quantizer(*model);
    OnnxWritePlan plan = quantizer.PlanAll();
    plan.activations.clear();
    const auto written = WriteOnnxModel(*model, plan, BuiltinFormats(), folder.path(), NullLog());
    const auto reference = build(quantizer.Decoded(quantizer.Encode(0)), "reference.onnx");
    const std::map<std::string, Tensor> x = {{"x", FloatInput({2, 5}, Numbers(10, 3))}};
    EXPECT_THAT(RunStock(written.model, x)["y"].values,
                Pointwise(FloatNear(1e-6F), RunStock(reference, x)["y"].values));
  };
  check({3, 5}, [](GraphBuilder& b) { b.Node("Transpose", {"w"}, {"v"}); });
  check({5, 3}, [](GraphBuilder& b) { b.Node("Identity", {"w"}, {"v"}); });
  check({5, 3}, [](GraphBuilder& b) {
    SetAttribute(b.Node("Cast", {"w"}, {"v"}), "to", onnx::TensorProto::FLOAT);
  });
  check({1, 3, 5, 1}, [](GraphBuilder& b) {
    b.Ints("shape", {2}, {3, 5});
    b.Node("Reshape", {"w", "shape"}, {"r"});
    b.Node("Transpose", {"r"}, {"v"});
  });
}

TEST(OnnxWriteShared, BranchesOnOneOuterWeight) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("cond", {}, DType::kBool).Input("x", {1, 4}).Output("y");
  b.Weight("w", {4, 4}, Numbers(16, 1));
  auto* node = b.Node("If", {"cond"}, {"y"}, "choice");
  GraphBuilder yes = AddBody(node, "then_branch");
  yes.Output("t").Node("MatMul", {"x", "w"}, {"t"}, "yes");
  GraphBuilder no = AddBody(node, "else_branch");
  no.Output("e").Constant("c", {4, 4}, Numbers(16, 2));
  no.Node("MatMul", {"x", "w"}, {"h"}, "no");
  no.Node("MatMul", {"h", "c"}, {"e"}, "inner");
  const auto model = LoadModel(b.Save(folder.path(), "in.onnx"));
  const ReferenceQuantizer quantizer(*model);
  OnnxWritePlan plan = quantizer.PlanAll();
  const std::vector<float> x = Numbers(4, 3);
  const auto run = [&](bool condition) {
    const auto written = WriteOnnxModel(*model, plan, BuiltinFormats(), folder.path(), NullLog());
    return RunStock(written.model,
                    {{"cond", BoolInput(condition)}, {"x", FloatInput({1, 4}, x)}})["y"]
        .values;
  };
  const std::vector<float> w = quantizer.Decoded(quantizer.Encode(0));
  const std::vector<float> c = quantizer.Decoded(quantizer.Encode(1));
  const float scale = plan.activations.at(0).scale;
  const std::vector<float> h = Product(quantizer.Round(x, scale), w, 1, 4, 4);
  EXPECT_THAT(run(true), Pointwise(FloatNear(1e-5F), h));
  EXPECT_THAT(run(false),
              Pointwise(FloatNear(1e-5F), Product(quantizer.Round(h, scale), c, 1, 4, 4)));
  // One branch kept: the outer weight is stored in both forms.
  plan.quantized[1] = false;
  EXPECT_THAT(run(true), Pointwise(FloatNear(1e-5F), h));
  const std::vector<float> plain = Product(x, Numbers(16, 1), 1, 4, 4);
  EXPECT_THAT(run(false),
              Pointwise(FloatNear(1e-5F), Product(quantizer.Round(plain, scale), c, 1, 4, 4)));
}

}  // namespace
}  // namespace hif8
