// The two networks that are measured side by side, run in the engine with taps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "formats/builtin.h"
#include "lib/model/onnx/onnx_functions.h"
#include "lib/model/onnx/onnx_graphs.h"
#include "lib/model/onnx/onnx_writer.h"
#include "lib/runtime/session.h"
#include "tests/model/onnx_builder.h"
#include "tests/model/onnx_quantize.h"
#include "tests/model/onnx_stock.h"

namespace hif8 {
namespace {

using testing::FloatNear;
using testing::Pointwise;

using Values = std::vector<float>;

Values ToValues(const TensorView& view) {
  Values values(view.size());
  ConvertToFloat(view.dtype, view.data, values.size(), values.data());
  return values;
}

// What the taps saw, by tap id.
class Recorder : public TapSink {
 public:
  void Observe(int id, const TensorView& x) override { observed[id] = ToValues(x); }
  void Compare(int id, const TensorView& x, const TensorView& y) override {
    compared[id] = {ToValues(x), ToValues(y)};
  }
  std::map<int, Values> observed;
  std::map<int, std::pair<Values, Values>> compared;
};

struct Result {
  Recorder taps;
  std::vector<Values> outputs;
};

Result RunGraph(const RunnableGraph& graph, const NamedTensors& inputs) {
  Result result;
  SessionOptions options;
  options.threads = 1;
  options.taps = &result.taps;
  options.operators = {{FunctionDomain("hif8"), std::string(kQuantizeDequantizeFunction),
                        BuiltinFormats().Find("hif8")}};
  Session session(graph, options);
  for (const Tensor& tensor : session.Run(inputs)) result.outputs.push_back(ToValues(tensor.view));
  return result;
}

int TapId(const std::vector<Tap>& taps, TapKind kind, int index) {
  for (size_t i = 0; i < taps.size(); ++i) {
    if (taps[i].kind == kind && taps[i].index == index) return static_cast<int>(i);
  }
  return -1;
}

constexpr float kScale = 1.0F / 16;

// x -> first -> Relu -> second -> y, with h and y as outputs.
class OnnxEvaluation : public testing::Test {
 protected:
  void Build(DType dtype, bool simulated, const OnnxLoadOptions& options = {}) {
    ModelBuilder b;
    b.Input("x", {2, 4}, dtype).Output("y", dtype).Output("h", dtype);
    for (const char* name : {"w", "v"}) {
      const Values values = Numbers(16, static_cast<uint32_t>(name[0]));
      b.Weight(name, {4, 4}, values);
      std::vector<std::byte> bytes(16 * DTypeSize(dtype));
      ConvertFromFloat(dtype, values.data(), 16, bytes.data());
      b.tensor(name)->set_raw_data(bytes.data(), bytes.size());
      b.tensor(name)->set_data_type(b.graph().input(0).type().tensor_type().elem_type());
    }
    b.Node("MatMul", {"x", "w"}, {"h"}, "first");
    b.Node("Relu", {"h"}, {"r"});
    b.Node("MatMul", {"r", "v"}, {"y"}, "second");
    model_ = LoadModel(b.Save(folder_.path(), "in.onnx"), options);
    quantizer_ = std::make_unique<ReferenceQuantizer>(*model_);
    OnnxWritePlan plan = quantizer_->PlanAll();
    plan.simulated = simulated;
    WriteOnnxModel(*model_, plan, BuiltinFormats(), folder_.path(), NullLog());
    graphs_ = BuildEvaluationGraphs(*model_, folder_.path());
  }

  static Values Relu(Values x) {
    for (float& v : x) v = std::max(v, 0.0F);
    return x;
  }

  void Check(DType dtype, bool simulated, float tolerance) {
    const Values x = Numbers(8, 5);
    const NamedTensors in = {{"x", FloatInput({2, 4}, x, graphs_.original.inputs[0].dtype)}};
    const auto round = [&](const Values& v) {
      return simulated ? v : quantizer_->Round(v, kScale);
    };
    // In the tensors' own precision, as the network computes them.
    const auto narrow = [&](Values v) {
      std::vector<std::byte> bytes(v.size() * DTypeSize(dtype));
      ConvertFromFloat(dtype, v.data(), v.size(), bytes.data());
      ConvertToFloat(dtype, bytes.data(), v.size(), v.data());
      return v;
    };
    const Values w = WeightValues(*model_, 0), v = WeightValues(*model_, 1);
    const Values wq = quantizer_->Decoded(quantizer_->Encode(0));
    const Values vq = quantizer_->Decoded(quantizer_->Encode(1));
    const Values xn = narrow(x);
    const Values h = Product(xn, w, 2, 4, 4), r = Relu(h), y = Product(r, v, 2, 4, 4);
    const Values h_local = Product(round(xn), wq, 2, 4, 4);
    const Values y_local = Product(round(r), vq, 2, 4, 4);
    const Values y_far = Product(round(Relu(h_local)), vq, 2, 4, 4);
    const auto near = [&](const Values& expected) {
      return Pointwise(FloatNear(tolerance), expected);
    };

    const Result original = RunGraph(graphs_.original, in);
    const Recorder& taps = original.taps;
    const auto compared = [&](TapKind kind, int index) {
      const int id = TapId(graphs_.original_taps, kind, index);
      EXPECT_TRUE(taps.compared.contains(id)) << index;
      const auto it = taps.compared.find(id);
      return it != taps.compared.end() ? it->second : std::pair<Values, Values>();
    };
    EXPECT_THAT(original.outputs.at(0), near(y));
    EXPECT_THAT(original.outputs.at(1), near(h));
    EXPECT_THAT(compared(TapKind::kOutput, 0).first, near(h));
    EXPECT_THAT(compared(TapKind::kOutput, 0).second, near(h_local));
    EXPECT_THAT(compared(TapKind::kOutput, 1).first, near(y));
    EXPECT_THAT(compared(TapKind::kOutput, 1).second, near(y_local));
    if (simulated) {
      EXPECT_EQ(TapId(graphs_.original_taps, TapKind::kActivation, 0), -1);
    } else {
      EXPECT_THAT(compared(TapKind::kActivation, 0).first, near(xn));
      EXPECT_THAT(compared(TapKind::kActivation, 0).second, near(round(xn)));
      EXPECT_THAT(compared(TapKind::kActivation, 1).first, near(r));
    }
    EXPECT_THAT(taps.observed.at(TapId(graphs_.original_taps, TapKind::kLayerOutput, 1)), near(y));

    const Result quantized = RunGraph(graphs_.quantized, in);
    EXPECT_THAT(quantized.outputs.at(0), near(y_far));
    EXPECT_THAT(quantized.outputs.at(1), near(h_local));
    EXPECT_THAT(quantized.taps.observed.at(TapId(graphs_.quantized_taps, TapKind::kLayerOutput, 0)),
                near(h_local));
    EXPECT_THAT(quantized.taps.observed.at(TapId(graphs_.quantized_taps, TapKind::kLayerOutput, 1)),
                near(y_far));
  }

  TestFolder folder_;
  std::unique_ptr<OnnxModel> model_;
  std::unique_ptr<ReferenceQuantizer> quantizer_;
  EvaluationGraphs graphs_;
};

TEST_F(OnnxEvaluation, TapsSeeWhatASimulationComputes) {
  Build(DType::kF32, false);
  Check(DType::kF32, false, 1e-5F);
}

TEST_F(OnnxEvaluation, LargeTensorsStayInTheFiles) {
  Build(DType::kF32, false, {.map_from_bytes = 1});
  EXPECT_EQ(graphs_.original.data_dir, folder_.path());
  Check(DType::kF32, false, 1e-5F);
}

TEST_F(OnnxEvaluation, SimulatedModels) {
  Build(DType::kF32, true);
  Check(DType::kF32, true, 1e-5F);
}

TEST_F(OnnxEvaluation, HalfPrecision) {
  Build(DType::kF16, false);
  Check(DType::kF16, false, 0.1F);  // rounding ties flip with the order of half-precision sums
}

TEST_F(OnnxEvaluation, Bfloat16IsComputedInFloat) {
  Build(DType::kBF16, false);
  EXPECT_EQ(graphs_.quantized.inputs[0].dtype, DType::kF32);
  Check(DType::kBF16, false, 0.1F);
}

TEST_F(OnnxEvaluation, DoublePrecision) {
  Build(DType::kF64, false);
  Check(DType::kF64, false, 1e-5F);
}

TEST(OnnxEvaluationGraphs, OnlyQuantizedLayersAreTapped) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("x", {1, 4}).Output("y").Weight("w", {4, 4}, Numbers(16, 1));
  b.Node("MatMul", {"x", "w"}, {"h"}, "kept");
  b.Node("MatMul", {"h", "w"}, {"y"}, "quantized");
  const auto model = LoadModel(b.Save(folder.path(), "in.onnx"));
  OnnxWritePlan plan = ReferenceQuantizer(*model).PlanAll();
  plan.quantized[0] = false;
  WriteOnnxModel(*model, plan, BuiltinFormats(), folder.path(), NullLog());
  const EvaluationGraphs graphs = BuildEvaluationGraphs(*model, folder.path());
  ASSERT_EQ(graphs.quantized_taps.size(), 1u);
  EXPECT_EQ(graphs.quantized_taps[0].index, 1);
  EXPECT_EQ(TapId(graphs.original_taps, TapKind::kOutput, 0), -1);
  const NamedTensors in = {{"x", FloatInput({1, 4}, Numbers(4, 3))}};
  EXPECT_EQ(RunGraph(graphs.original, in).taps.compared.size(), 2u);
  EXPECT_EQ(RunGraph(graphs.quantized, in).taps.observed.size(), 1u);
}

TEST(OnnxEvaluationGraphs, BranchesRecurrentLayersAndChains) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("cond", {}, DType::kBool).Input("x", {3, 1, 4}).Output("y");
  b.Weight("w", {4, 4}, Numbers(16, 1)).Weight("lw", {1, 16, 4}, Numbers(64, 2));
  b.Weight("lr", {1, 16, 4}, Numbers(64, 3));
  b.Node("Transpose", {"w"}, {"t"});
  auto* node = b.Node("If", {"cond"}, {"y"}, "choice");
  GraphBuilder yes = AddBody(node, "then_branch");
  yes.Output("a").Node("MatMul", {"x", "t"}, {"a"}, "yes");
  GraphBuilder no = AddBody(node, "else_branch");
  no.Output("e");
  SetAttribute(no.Node("LSTM", {"x", "lw", "lr"}, {"", "l"}, "lstm"), "hidden_size", 4);
  no.Node("MatMul", {"l", "t"}, {"e"}, "no");
  const auto model = LoadModel(b.Save(folder.path(), "in.onnx"));
  const ReferenceQuantizer quantizer(*model);
  WriteOnnxModel(*model, quantizer.PlanAll(), BuiltinFormats(), folder.path(), NullLog());
  const EvaluationGraphs graphs = BuildEvaluationGraphs(*model, folder.path());
  EXPECT_EQ(graphs.quantized_taps.size(), 4u);
  for (const bool condition : {true, false}) {
    const NamedTensors in = {{"cond", BoolInput(condition)},
                             {"x", FloatInput({3, 1, 4}, Numbers(12, 3))}};
    const auto stock = RunStock(folder / "in.onnx", in), far = RunStock(folder / "model.onnx", in);
    const Result original = RunGraph(graphs.original, in);
    const Result quantized = RunGraph(graphs.quantized, in);
    EXPECT_THAT(original.outputs.at(0), Pointwise(FloatNear(1e-5F), stock.at("y").values));
    EXPECT_THAT(quantized.outputs.at(0), Pointwise(FloatNear(1e-5F), far.at("y").values));
    // One layer with an activation in the one branch; one, and two without, in the other.
    EXPECT_EQ(original.taps.compared.size(), condition ? 2u : 4u);
    EXPECT_EQ(quantized.taps.observed.size(), condition ? 1u : 3u);
    for (const auto& [id, pair] : original.taps.compared) {
      EXPECT_EQ(pair.first.size(), pair.second.size());
      EXPECT_NE(pair.first, pair.second) << id;
      EXPECT_THAT(pair.first, Pointwise(FloatNear(0.3F), pair.second));
    }
  }
}

}  // namespace
}  // namespace hif8
