// Written models: they run in a stock ONNX Runtime and compute what a plain simulation computes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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
using testing::IsEmpty;
using testing::Pointwise;

// One layer `op` on x with weight w; `change` sets attributes. The quantized model's output must be
// what the float model gives for the decoded weight and the rounded input.
void CheckLayer(const std::string& op, const Shape& x_shape, const Shape& w_shape,
                const std::function<void(onnx::NodeProto*)>& change = {}, int opset = 17) {
  SCOPED_TRACE(op + " " + ShapeText(w_shape));
  TestFolder folder;
  const std::vector<float> x = Numbers(ElementCount(x_shape), 3);
  const auto build = [&](const std::vector<float>& w, const std::string& name) {
    ModelBuilder b(opset);
    b.Input("x", x_shape).Output("y").Weight("w", w_shape, w);
    onnx::NodeProto* node = b.Node(op, {"x", "w"}, {"y"}, "layer");
    if (change) change(node);
    return b.Save(folder.path(), name);
  };
  const std::vector<float> w = Numbers(ElementCount(w_shape), 1);
  const auto model = LoadModel(build(w, "original.onnx"));
  const ReferenceQuantizer quantizer(*model);
  OnnxWritePlan plan = quantizer.PlanAll();
  plan.activations[0].scale = 0.043F;
  const OnnxWritten written =
      WriteOnnxModel(*model, plan, BuiltinFormats(), folder.path(), NullLog());
  const std::filesystem::path reference =
      build(quantizer.Decoded(quantizer.Encode(0)), "reference.onnx");
  const auto found = RunStock(written.model, {{"x", FloatInput(x_shape, x)}})["y"];
  const auto expected =
      RunStock(reference, {{"x", FloatInput(x_shape, quantizer.Round(x, 0.043F))}})["y"];
  EXPECT_EQ(found.shape, expected.shape);
  EXPECT_THAT(found.values, Pointwise(FloatNear(1e-5F), expected.values));
  EXPECT_THAT(found.values, testing::Not(testing::Each(0.0F)));
  // What is read back is what was written.
  const EncodedWeight encoded = quantizer.Encode(0);
  const EncodedWeight read = OnnxArtifact::Open(folder.path(), BuiltinFormats())->ReadCodes("w");
  EXPECT_EQ(read.codes, encoded.codes);
  EXPECT_EQ(read.scales, encoded.scales);
  EXPECT_EQ(read.format, "hif8");
  EXPECT_EQ(quantizer.Decoded(read), quantizer.Decoded(encoded));
  const size_t overhead = 6 * 1024;  // the two functions and a handful of nodes
  EXPECT_LE(written.bytes, w.size() + 4 * encoded.scales.size() + overhead);
}

std::function<void(onnx::NodeProto*)> Set(const std::string& name, int64_t value) {
  return [=](onnx::NodeProto* node) { SetAttribute(node, name, value); };
}

TEST(OnnxWrite, EveryKindOfLayerComputesWhatTheSimulationComputes) {
  CheckLayer("MatMul", {2, 5}, {5, 3});
  CheckLayer("MatMul", {4, 2, 5}, {4, 5, 3});
  CheckLayer("MatMul", {2, 3, 2, 5}, {2, 3, 5, 4});
  CheckLayer("MatMul", {2, 5}, {5});
  CheckLayer("Gemm", {2, 5}, {5, 3});
  CheckLayer("Gemm", {2, 5}, {3, 5}, Set("transB", 1));
  CheckLayer("Conv", {1, 4, 9}, {6, 4, 3});
  CheckLayer("Conv", {1, 4, 9, 9}, {6, 4, 3, 3});
  CheckLayer("Conv", {1, 2, 5, 5, 5}, {3, 2, 3, 3, 3});
  CheckLayer("Conv", {1, 4, 9, 9}, {6, 2, 3, 3}, Set("group", 2));
  CheckLayer("Conv", {1, 4, 9, 9}, {4, 1, 3, 3}, Set("group", 4));
  CheckLayer("ConvTranspose", {1, 4, 5, 5}, {4, 6, 3, 3});
  CheckLayer("ConvTranspose", {1, 4, 5, 5}, {4, 3, 3, 3}, Set("group", 2));
}

TEST(OnnxWrite, TwinsOfEveryOpset) {
  for (const int opset : {9, 11, 13, 17, 21}) {
    CheckLayer("MatMul", {2, 5}, {5, 3}, {}, opset);
    CheckLayer("Conv", {1, 4, 9, 9}, {6, 4, 3, 3}, {}, opset);
    CheckLayer("ConvTranspose", {1, 4, 5, 5}, {4, 3, 3, 3}, Set("group", 2), opset);
  }
}

TEST(OnnxWrite, GemmAndItsTransposedTwinHaveTheSameScales) {
  TestFolder folder;
  const auto scales = [&](bool transposed) {
    std::vector<float> w = Numbers(15, 1);  // [5, 3]
    if (transposed) {
      const std::vector<float> plain = w;
      for (size_t i = 0; i < 15; ++i) w[i % 3 * 5 + i / 3] = plain[i];
    }
    ModelBuilder b;
    b.Input("x", {1, 5}).Output("y").Weight("w", transposed ? Shape{3, 5} : Shape{5, 3}, w);
    SetAttribute(b.Node("Gemm", {"x", "w"}, {"y"}, "layer"), "transB", transposed ? 1 : 0);
    const auto model = LoadModel(b.Save(folder.path()));
    return ReferenceQuantizer(*model).Encode(0).scales;
  };
  EXPECT_EQ(scales(false).size(), 3u);
  EXPECT_EQ(scales(false), scales(true));
}

ModelBuilder TwoLayers(int opset = 17, int ir = 8) {
  ModelBuilder b(opset, ir);
  b.Input("a", {1, 4}).Input("b", {1, 4}).Output("z").Output("y");
  b.Weight("w", {4, 4}, Numbers(16, 1)).Weight("v", {4, 4}, Numbers(16, 2));
  b.Node("MatMul", {"a", "w"}, {"h"}, "first");
  b.Node("Relu", {"h"}, {"r"});
  b.Node("MatMul", {"r", "v"}, {"y"}, "second");
  b.Node("Add", {"y", "b"}, {"z"});
  return b;
}

TEST(OnnxWrite, TheRestOfTheModelStays) {
  TestFolder folder;
  ModelBuilder b = TwoLayers(13, 7);
  b.model().set_producer_name("maker");
  auto* entry = b.model().add_metadata_props();
  entry->set_key("origin");
  entry->set_value("here");
  b.graph().mutable_input(1)->set_doc_string("second");
  const auto model = LoadModel(b.Save(folder.path(), "in.onnx"));
  OnnxWritePlan plan = ReferenceQuantizer(*model).PlanAll();
  plan.metadata = {{"note", "value"}};
  const auto written = WriteOnnxModel(*model, plan, BuiltinFormats(), folder.path(), NullLog());
  const onnx::ModelProto out = ParseFile(written.model);
  EXPECT_EQ(out.ir_version(), 8);
  EXPECT_EQ(out.opset_import(0).version(), 13);
  EXPECT_EQ(out.producer_name(), "maker");
  ASSERT_EQ(out.metadata_props_size(), 2);
  EXPECT_EQ(out.metadata_props(0).value(), "here");
  EXPECT_EQ(out.metadata_props(1).key(), "note");
  ASSERT_EQ(out.graph().input_size(), 2);
  EXPECT_EQ(out.graph().input(0).name(), "a");
  EXPECT_EQ(out.graph().input(1).doc_string(), "second");
  ASSERT_EQ(out.graph().output_size(), 2);
  EXPECT_EQ(out.graph().output(0).name(), "z");
  EXPECT_THAT(OpTypes(out.graph()),
              ElementsAre("DequantizeLinear", "DequantizeLinear", "QuantizeDequantizeLinear",
                          "MatMul", "Relu", "QuantizeDequantizeLinear", "MatMul", "Add"));
  EXPECT_EQ(FindTensor(out.graph(), "w"), nullptr);
  EXPECT_EQ(out.functions_size(), 2);
  EXPECT_EQ(written.bytes, std::filesystem::file_size(written.model));
  EXPECT_THAT(written.data.string(), IsEmpty());
}

TEST(OnnxWrite, NothingQuantizedIsTheSameModel) {
  TestFolder folder;
  ModelBuilder b = TwoLayers(11, 6);
  const auto model = LoadModel(b.Save(folder.path(), "in.onnx"));
  const auto written = WriteOnnxModel(*model, {}, BuiltinFormats(), folder.path(), NullLog());
  EXPECT_EQ(ParseFile(written.model).SerializeAsString(), b.model().SerializeAsString());
}

TEST(OnnxWrite, WeightsThatAreInputsAreInputsNoLonger) {
  TestFolder folder;
  ModelBuilder b(9, 3);
  b.Input("w", {4, 4}).Input("x", {1, 4}).Input("bias", {4}).Output("y");
  b.Weight("w", {4, 4}, Numbers(16, 1)).Weight("bias", {4}, Numbers(4, 2));
  b.Node("Gemm", {"x", "w", "bias"}, {"y"}, "layer");
  const auto model = LoadModel(b.Save(folder.path(), "in.onnx"));
  const ReferenceQuantizer quantizer(*model);
  const auto written =
      WriteOnnxModel(*model, quantizer.PlanAll(), BuiltinFormats(), folder.path(), NullLog());
  const onnx::ModelProto out = ParseFile(written.model);
  ASSERT_EQ(out.graph().input_size(), 1);
  EXPECT_EQ(out.graph().input(0).name(), "x");
  EXPECT_EQ(out.opset_import(0).version(), 9);
  EXPECT_EQ(RunStock(written.model, {{"x", FloatInput({1, 4}, Numbers(4, 3))}})["y"].shape,
            Shape({1, 4}));
}

TEST(OnnxWrite, HalfPrecisionStaysHalfPrecision) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("x", {1, 4}, DType::kF16).Output("y", DType::kF16);
  std::vector<std::byte> bytes(32);
  const std::vector<float> w = Numbers(16, 1);
  ConvertFromFloat(DType::kF16, w.data(), 16, bytes.data());
  b.Weight("w", {4, 4}, w);
  b.tensor("w")->set_raw_data(bytes.data(), 32);
  b.tensor("w")->set_data_type(onnx::TensorProto::FLOAT16);
  b.Node("MatMul", {"x", "w"}, {"y"}, "layer");
  const auto model = LoadModel(b.Save(folder.path(), "in.onnx"));
  const ReferenceQuantizer quantizer(*model);
  OnnxWritePlan plan = quantizer.PlanAll();
  const std::vector<float> x = Numbers(4, 3);
  for (const bool simulated : {false, true}) {
    plan.simulated = simulated;
    const auto written = WriteOnnxModel(*model, plan, BuiltinFormats(), folder.path(), NullLog());
    const auto y = RunStock(written.model, {{"x", FloatInput({1, 4}, x, DType::kF16)}})["y"];
    EXPECT_EQ(y.dtype, DType::kF16);
    const std::vector<float> in = simulated ? x : quantizer.Round(x, plan.activations[0].scale);
    EXPECT_THAT(y.values, Pointwise(FloatNear(4e-3F),
                                    Product(in, quantizer.Decoded(quantizer.Encode(0)), 1, 4, 4)));
  }
}

TEST(OnnxWrite, RecurrentWeights) {
  TestFolder folder;
  const auto build = [&](const std::vector<float>& w, const std::vector<float>& r,
                         const std::string& name) {
    ModelBuilder b;
    b.Input("x", {5, 1, 3}).Output("y").Weight("w", {1, 16, 3}, w).Weight("r", {1, 16, 4}, r);
    SetAttribute(b.Node("LSTM", {"x", "w", "r"}, {"y"}, "lstm"), "hidden_size", 4);
    return b.Save(folder.path(), name);
  };
  const auto model = LoadModel(build(Numbers(48, 1), Numbers(64, 2), "in.onnx"));
  const ReferenceQuantizer quantizer(*model);
  const auto written =
      WriteOnnxModel(*model, quantizer.PlanAll(), BuiltinFormats(), folder.path(), NullLog());
  const auto reference = build(quantizer.Decoded(quantizer.Encode(0)),
                               quantizer.Decoded(quantizer.Encode(1)), "reference.onnx");
  const std::map<std::string, Tensor> x = {{"x", FloatInput({5, 1, 3}, Numbers(15, 3))}};
  EXPECT_THAT(RunStock(written.model, x)["y"].values,
              Pointwise(FloatNear(1e-6F), RunStock(reference, x)["y"].values));
}

TEST(OnnxWrite, SimulatedIsTheSameNetworkWithDecodedWeights) {
  TestFolder folder;
  ModelBuilder b = TwoLayers(11, 6);
  const auto model = LoadModel(b.Save(folder.path(), "in.onnx"));
  const ReferenceQuantizer quantizer(*model);
  OnnxWritePlan plan = quantizer.PlanAll();
  plan.simulated = true;
  const auto written = WriteOnnxModel(*model, plan, BuiltinFormats(), folder.path(), NullLog());
  onnx::ModelProto out = ParseFile(written.model);
  for (int i = 0; i < 2; ++i) {
    const std::vector<float> decoded = quantizer.Decoded(quantizer.Encode(i));
    EXPECT_EQ(out.graph().initializer(i).raw_data(),
              std::string(reinterpret_cast<const char*>(decoded.data()), 64));
    *out.mutable_graph()->mutable_initializer(i) = b.graph().initializer(i);
  }
  EXPECT_EQ(out.SerializeAsString(), b.model().SerializeAsString());
  const auto artifact = OnnxArtifact::Open(folder.path(), BuiltinFormats());
  const Tensor values = artifact->ReadValues("v");
  EXPECT_EQ(reinterpret_cast<const float*>(values.view.data)[0],
            quantizer.Decoded(quantizer.Encode(1))[0]);
}

TEST(OnnxWrite, ExternalDataIsSelfContained) {
  TestFolder folder, moved;
  const Shape shape = {64, 48};
  ModelBuilder b;
  b.Input("x", {1, 64}).Output("y").Output("z").Weight("w", shape, Numbers(64 * 48, 1));
  b.Weight("kept", shape, Numbers(64 * 48, 2));
  b.Node("MatMul", {"x", "w"}, {"y"}, "layer");
  b.Node("MatMul", {"x", "kept"}, {"z"}, "other");
  // The source has a data file of the same name.
  for (const char* name : {"w", "kept"}) {
    MoveToFile(b.tensor(name), folder / "model.onnx.data", "model.onnx.data");
  }
  const auto model = LoadModel(b.Save(folder.path()));
  const ReferenceQuantizer quantizer(*model);
  OnnxWritePlan plan = quantizer.PlanAll();
  plan.quantized[1] = false;
  plan.external_from_bytes = 1;
  std::filesystem::create_directory(folder / "out");
  const auto written = WriteOnnxModel(*model, plan, BuiltinFormats(), folder / "out", NullLog());
  EXPECT_EQ(written.data, folder / "out" / "model.onnx.data");
  EXPECT_LE(written.bytes, 64 * 48 + 48 * 4 + 64 * 48 * 4 + 6 * 1024);
  const std::vector<float> x = Numbers(64, 3);
  const float scale = plan.activations[0].scale;
  const auto y =
      Product(quantizer.Round(x, scale), quantizer.Decoded(quantizer.Encode(0)), 1, 64, 48);
  std::filesystem::rename(folder / "out" / "model.onnx", moved / "model.onnx");
  std::filesystem::rename(folder / "out" / "model.onnx.data", moved / "model.onnx.data");
  auto result = RunStock(moved / "model.onnx", {{"x", FloatInput({1, 64}, x)}});
  EXPECT_THAT(result["y"].values, Pointwise(FloatNear(1e-4F), y));
  EXPECT_THAT(result["z"].values,
              Pointwise(FloatNear(1e-4F), Product(x, Numbers(64 * 48, 2), 1, 64, 48)));
  EXPECT_EQ(OnnxArtifact::Open(moved.path(), BuiltinFormats())->ReadCodes("w").codes,
            quantizer.Encode(0).codes);
}

TEST(OnnxWrite, SameBytesWhereverTheWeightsCameFrom) {
  TestFolder folder;
  const auto write = [&](ModelBuilder& b, const OnnxLoadOptions& options) {
    const auto model = LoadModel(b.Save(folder.path(), "in.onnx"), options);
    const auto written = WriteOnnxModel(*model, ReferenceQuantizer(*model).PlanAll(),
                                        BuiltinFormats(), folder.path(), NullLog());
    return ParseFile(written.model).SerializeAsString();
  };
  ModelBuilder raw = TwoLayers();
  const std::string expected = write(raw, {});
  EXPECT_EQ(write(raw, {.map_from_bytes = 1}), expected);
  ModelBuilder external = TwoLayers();
  MoveToFile(external.tensor("w"), folder / "w.bin", "w.bin");
  MoveToFile(external.tensor("v"), folder / "w.bin", "w.bin");
  EXPECT_EQ(write(external, {}), expected);
}

}  // namespace
}  // namespace hif8
