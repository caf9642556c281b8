// Which places of a graph can be quantized, and which elements of a weight share a scale.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/builtin.h"
#include "lib/model/onnx/onnx_writer.h"
#include "lib/runtime/session.h"
#include "tests/model/onnx_builder.h"
#include "tests/model/onnx_stock.h"

namespace hif8 {
namespace {

using testing::HasSubstr;

std::vector<size_t> Layout(const OnnxModel& model, const std::string& layer) {
  const ChannelLayout& c =
      model.weights().at(static_cast<size_t>(FindLayer(model, layer).weight)).channels;
  return {c.batch, c.outer, c.channels, c.inner};
}
using Dims = std::vector<size_t>;

// One layer between x and y; `weight` defines "w" in its own way.
std::unique_ptr<OnnxModel> OneLayer(const TestFolder& folder, const std::string& op,
                                    const Shape& shape,
                                    const std::function<void(onnx::NodeProto*)>& change = {}) {
  ModelBuilder b;
  b.Input("x", {}).Output("y").Weight("w", shape, Numbers(ElementCount(shape), 1));
  b.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  onnx::NodeProto* node = b.Node(op, {"x", "w"}, {"y"}, "layer");
  if (change) change(node);
  return LoadModel(b.Save(folder.path()));
}

TEST(OnnxLayers, ChannelsOfEachOperator) {
  TestFolder folder;
  EXPECT_EQ(Layout(*OneLayer(folder, "MatMul", {4, 5}), "layer"), Dims({1, 4, 5, 1}));
  EXPECT_EQ(Layout(*OneLayer(folder, "MatMul", {3, 4, 5}), "layer"), Dims({3, 4, 5, 1}));
  EXPECT_EQ(Layout(*OneLayer(folder, "MatMul", {2, 3, 4, 5}), "layer"), Dims({6, 4, 5, 1}));
  EXPECT_EQ(Layout(*OneLayer(folder, "MatMul", {1, 1, 4, 5}), "layer"), Dims({1, 4, 5, 1}));
  EXPECT_EQ(Layout(*OneLayer(folder, "Gemm", {4, 5}), "layer"), Dims({1, 4, 5, 1}));
  const auto transposed = [](onnx::NodeProto* node) { SetAttribute(node, "transB", 1); };
  EXPECT_EQ(Layout(*OneLayer(folder, "Gemm", {4, 5}, transposed), "layer"), Dims({1, 1, 4, 5}));
  EXPECT_EQ(Layout(*OneLayer(folder, "Conv", {6, 2, 3}), "layer"), Dims({1, 1, 6, 6}));
  EXPECT_EQ(Layout(*OneLayer(folder, "Conv", {6, 2, 3, 3}), "layer"), Dims({1, 1, 6, 18}));
  EXPECT_EQ(Layout(*OneLayer(folder, "Conv", {6, 2, 3, 3, 3}), "layer"), Dims({1, 1, 6, 54}));
  const auto grouped = [](onnx::NodeProto* node) { SetAttribute(node, "group", 2); };
  EXPECT_EQ(Layout(*OneLayer(folder, "Conv", {6, 1, 3, 3}, grouped), "layer"), Dims({1, 1, 6, 9}));
  EXPECT_EQ(Layout(*OneLayer(folder, "ConvTranspose", {6, 4, 3, 3}), "layer"), Dims({1, 6, 4, 9}));
  EXPECT_EQ(Layout(*OneLayer(folder, "ConvTranspose", {6, 4, 3, 3}, grouped), "layer"),
            Dims({2, 3, 4, 9}));
}

TEST(OnnxLayers, VectorsHaveOneScaleAndANote) {
  TestFolder folder;
  const auto model = OneLayer(folder, "MatMul", {7});
  EXPECT_EQ(Layout(*model, "layer"), Dims({1, 1, 1, 7}));
  EXPECT_THAT(model->weights()[0].note, HasSubstr("vector"));
}

TEST(OnnxLayers, WeightOnTheLeft) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("x", {4, 3}).Output("y").Weight("w", {5, 4}, Numbers(20, 1));
  b.Node("MatMul", {"w", "x"}, {"y"}, "layer");
  const auto model = LoadModel(b.Save(folder.path()));
  EXPECT_EQ(Layout(*model, "layer"), Dims({1, 1, 5, 4}));
  EXPECT_EQ(model->activations().at(0).name, "x");
}

TEST(OnnxLayers, UnsupportedPlacesSayWhy) {
  TestFolder folder;
  const auto expect = [&](ModelBuilder& b, const std::string& reason) {
    const auto model = LoadModel(b.Save(folder.path()));
    EXPECT_THAT(FindLayer(*model, "layer").unsupported, HasSubstr(reason));
    EXPECT_EQ(FindLayer(*model, "layer").weight, -1);
  };
  ModelBuilder rank;
  rank.Input("x", {1, 2, 3, 3, 3, 3}).Output("y").Weight("w", {2, 2, 1, 1, 1, 1}, Numbers(4, 1));
  rank.Node("Conv", {"x", "w"}, {"y"}, "layer");
  expect(rank, "6 dimensions");
  ModelBuilder variable;
  variable.Input("x", {1, 2, 3}).Input("w", {2, 2, 1}).Output("y");
  variable.Node("Conv", {"x", "w"}, {"y"}, "layer");
  expect(variable, "not a constant");
  ModelBuilder computed;
  computed.Input("x", {1, 2}).Output("y").Weight("w", {2, 2}, Numbers(4, 1));
  computed.Weight("s", {1}, {2});
  computed.Node("Mul", {"w", "s"}, {"ws"});
  computed.Node("MatMul", {"x", "ws"}, {"y"}, "layer");
  expect(computed, "computed by Mul");
  ModelBuilder quantized;
  quantized.Input("x", {1, 2}).Output("y").Weight("s", {}, {0.5f});
  auto* codes = quantized.graph().add_initializer();
  codes->set_name("q");
  codes->set_data_type(onnx::TensorProto::INT8);
  codes->add_dims(2);
  codes->add_dims(2);
  codes->set_raw_data("\1\2\3\4", 4);
  quantized.Node("DequantizeLinear", {"q", "s"}, {"w"});
  quantized.Node("MatMul", {"x", "w"}, {"y"}, "layer");
  expect(quantized, "already quantized (DequantizeLinear)");
  ModelBuilder both;
  both.Input("x", {1}).Output("y").Output("z").Weight("a", {2, 2}, Numbers(4, 1));
  both.Weight("w", {2, 2}, Numbers(4, 2));
  both.Node("MatMul", {"a", "w"}, {"y"}, "layer");
  both.Node("Relu", {"x"}, {"z"});
  expect(both, "both its operands are constant");
  ModelBuilder fused;
  fused.Input("x", {1, 2}).Output("y").Weight("w", {2, 2}, Numbers(4, 1));
  fused.Node("FusedMatMul", {"x", "w"}, {"y"}, "layer")->set_domain("com.microsoft");
  expect(fused, "FusedMatMul (com.microsoft)");
  ModelBuilder einsum;
  einsum.Input("x", {1, 2}).Output("y").Weight("w", {2, 2}, Numbers(4, 1));
  onnx::AttributeProto* equation =
      einsum.Node("Einsum", {"x", "w"}, {"y"}, "layer")->add_attribute();
  equation->set_name("equation");
  equation->set_type(onnx::AttributeProto::STRING);
  equation->set_s("ij,jk->ik");
  expect(einsum, "Einsum");
  ModelBuilder empty;
  empty.Input("x", {1, 0}).Output("y").Weight("w", {0, 2}, {});
  empty.Node("MatMul", {"x", "w"}, {"y"}, "layer");
  expect(empty, "empty");
}

TEST(OnnxLayers, ProductsOfIntegersAreNone) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("x", {1, 2}, DType::kI64).Input("z", {2, 2}, DType::kI64).Output("y", DType::kI64);
  b.Output("v", DType::kI64).Ints("w", {2, 2}, {1, 2, 3, 4});
  b.Node("MatMul", {"x", "w"}, {"y"}, "constant");
  b.Node("MatMul", {"x", "z"}, {"v"}, "variable");
  EXPECT_TRUE(LoadModel(b.Save(folder.path()))->layers().empty());
}

TEST(OnnxLayers, ChainsAreWalkedThroughAndTheAxisMappedBack) {
  TestFolder folder;
  const auto chain = [&](const std::string& op, const Shape& stored,
                         const std::function<void(GraphBuilder&)>& nodes) {
    ModelBuilder b(17);
    b.Input("x", {}).Output("y").Weight("w", stored, Numbers(ElementCount(stored), 1));
    nodes(b);
    b.Node(op, {"x", "v"}, {"y"}, "layer");
    return LoadModel(b.Save(folder.path()));
  };
  const auto transpose = [](GraphBuilder& b) { b.Node("Transpose", {"w"}, {"v"}); };
  EXPECT_EQ(Layout(*chain("MatMul", {5, 4}, transpose), "layer"), Dims({1, 1, 5, 4}));
  const auto permute = [](GraphBuilder& b) {
    SetInts(b.Node("Transpose", {"w"}, {"v"}), "perm", {1, 2, 0});  // [5, 3, 4] -> [3, 4, 5]
  };
  const auto permuted = chain("MatMul", {5, 3, 4}, permute);
  // Scales by the first two stored dimensions: five channels for each of three matrices.
  EXPECT_EQ(Layout(*permuted, "layer"), Dims({1, 1, 15, 4}));
  const auto identity = [](GraphBuilder& b) { b.Node("Identity", {"w"}, {"v"}); };
  EXPECT_EQ(Layout(*chain("Gemm", {4, 5}, identity), "layer"), Dims({1, 4, 5, 1}));
  const auto reshape = [](GraphBuilder& b) {
    b.Ints("shape", {2}, {4, -1});
    b.Node("Reshape", {"w", "shape"}, {"v"});
  };
  EXPECT_EQ(Layout(*chain("MatMul", {2, 2, 5}, reshape), "layer"), Dims({1, 4, 5, 1}));
  // [2, 3] is seen as [4, ...]? No: six elements as [4, -1] are no shape.
  EXPECT_THAT(FindLayer(*chain("MatMul", {2, 3}, reshape), "layer").unsupported,
              HasSubstr("Reshape"));
  const auto cast = [](GraphBuilder& b) {
    SetAttribute(b.Node("Cast", {"w"}, {"v"}), "to", onnx::TensorProto::FLOAT16);
  };
  EXPECT_EQ(Layout(*chain("Conv", {4, 5, 3, 3}, cast), "layer"), Dims({1, 1, 4, 45}));
  const auto squeeze = [](GraphBuilder& b) {
    b.Ints("axes", {1}, {0});
    b.Node("Squeeze", {"w", "axes"}, {"u"});
    b.Node("Transpose", {"u"}, {"t"});
    b.Ints("more", {2}, {0, -1});
    b.Node("Unsqueeze", {"t", "more"}, {"s"});  // [1, 4, 5, 1]
    b.Ints("shape", {2}, {0, 0});
    b.Node("Squeeze", {"s"}, {"v"});
  };
  EXPECT_EQ(Layout(*chain("MatMul", {1, 5, 4}, squeeze), "layer"), Dims({1, 1, 5, 4}));
}

TEST(OnnxLayers, ChannelsThatCannotBeTracedShareOneScale) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("x", {1, 4}).Output("y").Weight("w", {5, 4}, Numbers(20, 1));
  b.Ints("shape", {2}, {4, 5});
  b.Node("Transpose", {"w"}, {"t"});  // [4, 5]
  b.Ints("flat", {2}, {10, 2});
  b.Node("Reshape", {"t", "flat"}, {"r"});  // [10, 2]
  b.Node("Transpose", {"r"}, {"u"});        // [2, 10]
  b.Node("Reshape", {"u", "shape"}, {"v"});
  b.Node("MatMul", {"x", "v"}, {"y"}, "layer");
  const auto model = LoadModel(b.Save(folder.path()));
  EXPECT_EQ(Layout(*model, "layer"), Dims({1, 1, 1, 20}));
  EXPECT_THAT(model->weights()[0].note, HasSubstr("cannot be traced"));
}

TEST(OnnxLayers, NamesAreUnique) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("x", {1, 2}).Output("d").Weight("w", {2, 2}, Numbers(4, 1));
  b.Node("MatMul", {"x", "w"}, {"a"}, "same");
  b.Node("MatMul", {"a", "w"}, {"b"}, "same");
  b.Node("Relu", {"b"}, {"r"}, "same_2");
  b.Node("MatMul", {"r", "w"}, {"c"}, "same");
  b.Node("MatMul", {"c", "w"}, {"d"});
  const auto model = LoadModel(b.Save(folder.path()));
  std::vector<std::string> names;
  for (const Layer& layer : model->layers()) names.push_back(layer.name);
  EXPECT_EQ(names, std::vector<std::string>({"same", "same_3", "same_4", "MatMul_d"}));
  EXPECT_EQ(model->weights().size(), 1u);
  EXPECT_EQ(model->activations().size(), 4u);
}

TEST(OnnxLayers, SharedWeightWithDifferentChannels) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("x", {1, 4}).Output("y").Output("z").Weight("w", {4, 4}, Numbers(16, 1));
  b.Node("Gemm", {"x", "w"}, {"y"}, "plain");
  SetAttribute(b.Node("Gemm", {"x", "w"}, {"z"}, "transposed"), "transB", 1);
  const auto model = LoadModel(b.Save(folder.path()));
  EXPECT_EQ(Layout(*model, "plain"), Dims({1, 1, 1, 16}));
  EXPECT_THAT(model->weights()[0].note, HasSubstr("share"));
  EXPECT_EQ(model->activations().size(), 1u);
}

TEST(OnnxLayers, EmbeddingsAreOptionalAndTieTheirWeight) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("ids", {1, 3}, DType::kI64).Output("y").Weight("table", {8, 4}, Numbers(32, 1));
  b.Weight("w", {4, 4}, Numbers(16, 2));
  b.Node("Gather", {"table", "ids"}, {"h"}, "embedding");
  b.Node("MatMul", {"h", "w"}, {"g"}, "body");
  b.Node("Transpose", {"table"}, {"head_w"});
  b.Node("MatMul", {"g", "head_w"}, {"y"}, "head");
  const auto model = LoadModel(b.Save(folder.path()));
  EXPECT_EQ(FindLayer(*model, "embedding").option, "embeddings");
  EXPECT_TRUE(FindLayer(*model, "embedding").optional);
  EXPECT_EQ(FindLayer(*model, "embedding").activation, -1);
  EXPECT_EQ(FindLayer(*model, "head").option, "embeddings");
  EXPECT_EQ(FindLayer(*model, "head").weight, FindLayer(*model, "embedding").weight);
  EXPECT_FALSE(FindLayer(*model, "body").optional);
  EXPECT_EQ(Layout(*model, "embedding"), Dims({1, 1, 8, 4}));
}

TEST(OnnxLayers, RecurrentWeightsPerGateRow) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("x", {5, 1, 3}).Output("y");
  b.Weight("w", {2, 16, 3}, Numbers(96, 1)).Weight("r", {2, 16, 4}, Numbers(128, 2));
  auto* node = b.Node("LSTM", {"x", "w", "r"}, {"y"}, "lstm");
  SetAttribute(node, "hidden_size", 4);
  SetString(node, "direction", "bidirectional");
  const auto model = LoadModel(b.Save(folder.path()));
  EXPECT_EQ(Layout(*model, "lstm/W"), Dims({1, 1, 32, 3}));
  EXPECT_EQ(Layout(*model, "lstm/R"), Dims({1, 1, 32, 4}));
  EXPECT_EQ(FindLayer(*model, "lstm/W").activation, -1);
  EXPECT_TRUE(model->activations().empty());
}

TEST(OnnxLayers, AttentionProductsAreOptional) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("q", {1, 3, 4}).Input("k", {1, 4, 3}).Output("p");
  b.Node("Relu", {"q"}, {"qr"});
  b.Node("MatMul", {"qr", "k"}, {"p"}, "scores");
  const auto model = LoadModel(b.Save(folder.path()));
  const Layer& layer = FindLayer(*model, "scores");
  EXPECT_EQ(layer.option, "attention");
  EXPECT_EQ(layer.weight, -1);
  EXPECT_EQ(model->activations().at(static_cast<size_t>(layer.activation)).name, "qr");
  EXPECT_EQ(model->activations().at(static_cast<size_t>(layer.second_activation)).name, "k");
}

TEST(OnnxLayers, BranchesOnOneOuterWeight) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("cond", {}, DType::kBool).Input("x", {1, 4}).Output("y");
  b.Weight("w", {4, 4}, Numbers(16, 1));
  auto* node = b.Node("If", {"cond"}, {"y"}, "choice");
  for (const char* branch : {"then_branch", "else_branch"}) {
    GraphBuilder body = AddBody(node, branch);
    body.Output("out");
    body.Constant("c", {4, 4}, Numbers(16, 2));
    body.Node("MatMul", {"x", "w"}, {"h"}, "mm");
    body.Node("MatMul", {"h", "c"}, {"out"}, "inner");
  }
  const auto model = LoadModel(b.Save(folder.path()));
  ASSERT_EQ(model->layers().size(), 4u);
  EXPECT_EQ(model->layers()[0].weight, model->layers()[2].weight);
  // Each branch has constants and activations of its own, under names of their own.
  EXPECT_NE(model->layers()[1].weight, model->layers()[3].weight);
  EXPECT_NE(model->layers()[0].activation, model->layers()[2].activation);
  EXPECT_EQ(model->layers()[2].name, "mm_2");
  EXPECT_EQ(model->activations()[2].name, "choice/else_branch/x");
  EXPECT_EQ(model->weights()[2].name, "choice/else_branch/c");
}

TEST(OnnxLayers, MultiplyAddsOfOneSample) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("x", {-1, 3, 10, 10}).Output("y").Output("z").Output("l");
  b.Weight("c", {8, 3, 3, 3}, Numbers(216, 1)).Weight("d", {8, 1, 3, 3}, Numbers(72, 2));
  b.Weight("w", {6, 5}, Numbers(30, 3)).Weight("t", {8, 4, 2, 2}, Numbers(128, 4));
  b.Weight("lw", {1, 16, 6}, Numbers(96, 5)).Weight("lr", {1, 16, 4}, Numbers(64, 6));
  b.Node("Conv", {"x", "c"}, {"h"}, "conv");                                 // [1, 8, 8, 8]
  SetAttribute(b.Node("Conv", {"h", "d"}, {"g"}, "depthwise"), "group", 8);  // [1, 8, 6, 6]
  b.Node("MatMul", {"g", "w"}, {"y"}, "matmul");                             // [1, 8, 6, 5]
  b.Node("ConvTranspose", {"g", "t"}, {"z"}, "transpose");                   // [1, 4, 7, 7]
  b.Ints("shape", {3}, {8, 6, 6});
  b.Node("Reshape", {"g", "shape"}, {"s"});
  SetAttribute(b.Node("LSTM", {"s", "lw", "lr"}, {"l"}, "lstm"), "hidden_size", 4);
  const auto model = LoadModel(b.Save(folder.path()));
  const auto macs = [&](const char* name) { return FindLayer(*model, name).macs; };
  EXPECT_EQ(macs("conv"), 8 * 8 * 8 * 27);
  EXPECT_EQ(macs("depthwise"), 8 * 6 * 6 * 9);
  EXPECT_EQ(macs("matmul"), 8 * 6 * 5 * 6);
  EXPECT_EQ(macs("transpose"), 8 * 6 * 6 * 4 * 4);
  EXPECT_EQ(macs("lstm/W"), 8 * 6 * 96);
  EXPECT_EQ(macs("lstm/R"), 8 * 6 * 64);
}

// An engine, as the program gives it to the loader.
std::vector<Tensor> Evaluate(const RunnableGraph& graph) { return Session(graph, {}).Run({}); }

TEST(OnnxLayers, ComputedWeightsAreEvaluatedWhenThereIsAnEngine) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("cond", {}, DType::kBool).Input("x", {1, 2}).Output("y").Output("z");
  b.Weight("w", {2, 2}, {1, 2, 3, 4}).Weight("s", {2}, {10, 100});
  b.Node("Mul", {"w", "s"}, {"ws"});
  b.Node("Transpose", {"ws"}, {"t"});
  b.Node("MatMul", {"x", "t"}, {"z"}, "outer");
  auto* node = b.Node("If", {"cond"}, {"y"}, "choice");
  b.Weight("c", {1, 2}, {5, 6});
  for (const char* branch : {"then_branch", "else_branch"}) {
    GraphBuilder body = AddBody(node, branch);
    body.Output("out");
    SetAttribute(body.Node("Concat", {"c", "c"}, {"cc"}), "axis", 0);
    body.Node("MatMul", {"x", "cc"}, {"out"}, branch[0] == 't' ? "yes" : "no");
  }
  const auto path = b.Save(folder.path());
  EXPECT_THAT(FindLayer(*LoadModel(path), "outer").unsupported, HasSubstr("computed by Mul"));
  const auto model = LoadModel(path, {.evaluate = Evaluate});
  ASSERT_EQ(model->weights().size(), 2u);  // the branches share theirs
  EXPECT_EQ(model->weights()[0].name, "ws");
  EXPECT_EQ(WeightValues(*model, 0), std::vector<float>({10, 200, 30, 400}));
  EXPECT_EQ(Layout(*model, "outer"), Dims({1, 1, 2, 2}));
  EXPECT_EQ(WeightValues(*model, FindLayer(*model, "no").weight), std::vector<float>({5, 6, 5, 6}));
  // What the weights were made of is gone.
  EXPECT_EQ(model->parameter_count(), 2u * 4u);
  const auto written = WriteOnnxModel(*model, {}, BuiltinFormats(), folder.path(), NullLog());
  for (const bool cond : {true, false}) {
    const std::map<std::string, Tensor> in = {{"cond", BoolInput(cond)},
                                              {"x", FloatInput({1, 2}, {1, 2})}};
    EXPECT_EQ(RunStock(written.model, in)["y"].values, std::vector<float>({15, 18}));
    EXPECT_EQ(RunStock(written.model, in)["z"].values, std::vector<float>({410, 830}));
  }
}

}  // namespace
}  // namespace hif8
