#include "lib/runtime/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "formats/builtin.h"
#include "lib/core/error.h"
#include "tests/runtime/data_files.h"
#include "tests/runtime/test_graph.h"

namespace hif8 {
namespace {

constexpr size_t kSamples = 7;
constexpr size_t kIn = 4;
constexpr size_t kOut = 3;

// Values that no two places share.
std::vector<float> TestData() {
  std::vector<float> x(kSamples * kIn);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(std::sin(static_cast<double>(i) * 1.7) * 3);
  }
  return x;
}
std::vector<float> TestWeights(float offset) {
  std::vector<float> w(kIn * kOut);
  for (size_t i = 0; i < w.size(); ++i) {
    w[i] = static_cast<float>(std::cos(static_cast<double>(i) * 0.9 + static_cast<double>(offset)));
  }
  return w;
}

// rows x kIn times kIn x kOut, in double.
std::vector<double> Multiply(const std::vector<float>& x, const std::vector<float>& w) {
  std::vector<double> y;
  for (size_t r = 0; r < x.size() / kIn; ++r) {
    for (size_t c = 0; c < kOut; ++c) {
      double sum = 0;
      for (size_t k = 0; k < kIn; ++k) {
        sum += static_cast<double>(x[r * kIn + k]) * w[k * kOut + c];
      }
      y.push_back(sum);
    }
  }
  return y;
}

template <typename X, typename Y>
double Sqnr(const std::vector<X>& x, const std::vector<Y>& y) {
  double signal = 0;
  double noise = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = x[i];
    const double d = a - y[i];
    signal += a * a;
    noise += d * d;
  }
  return 10 * std::log10(signal / noise);
}

class PassesTest : public testing::Test {
 protected:
  std::unique_ptr<Dataset> Data(const RunnableGraph& graph, const std::string& bytes,
                                size_t batch = 1) {
    WriteBytes(dir_ / "x.npy", bytes);
    DataOptions options;
    options.source = (dir_ / "x.npy").string();
    options.batch = batch;
    return OpenDataset(options, graph.inputs, log_);
  }

  TempFolder dir_;
  RecordingLog log_;
};

RunnableGraph ObservedGraph() {
  TestGraph g;
  g.Input("x", {-1, kIn}).Output("y", {-1, kOut}).Weight("w", {kIn, kOut}, TestWeights(0));
  g.Tap(kObserveOp, 1, {"x"}, "x1");
  g.Node("MatMul", {"x1", "w"}, {"m"});
  g.Tap(kObserveOp, 0, {"m"}, "m1");
  g.Node("Neg", {"m1"}, {"y"});
  return g.Build();
}

TEST_F(PassesTest, CollectsEveryTensorOfEverySample) {
  const std::vector<float> x = TestData();
  const RunnableGraph graph = ObservedGraph();
  const auto data = Data(graph, NpyFloats({kSamples, kIn}, x));
  const auto stats = CollectStats(graph, *data, 3, "calibration", log_);
  ASSERT_EQ(stats.size(), 3u);
  double amax_y = 0;
  for (const double v : Multiply(x, TestWeights(0))) amax_y = std::max(amax_y, std::abs(v));
  EXPECT_EQ(stats[0].count(), kSamples * kOut);
  EXPECT_NEAR(stats[0].amax(), amax_y, 1e-5);
  float amax_x = 0;
  for (const float v : x) amax_x = std::max(amax_x, std::abs(v));
  EXPECT_EQ(stats[1].amax(), amax_x);
  EXPECT_EQ(stats[1].count(), x.size());
  EXPECT_EQ(stats[1].samples(), kSamples);
  ASSERT_EQ(stats[1].trace().size(), kSamples);
  for (size_t s = 0; s < kSamples; ++s) {
    float amax = 0;
    for (size_t i = 0; i < kIn; ++i) amax = std::max(amax, std::abs(x[s * kIn + i]));
    EXPECT_EQ(stats[1].trace()[s], amax);
  }
  EXPECT_EQ(stats[2].samples(), 0u) << "a tap that is not in the graph";
  ASSERT_FALSE(log_.progress.empty());
  EXPECT_EQ(log_.progress.back(), (std::pair<uint64_t, uint64_t>{kSamples, kSamples}));
}

TEST_F(PassesTest, TheBatchDoesNotMatter) {
  const RunnableGraph graph = ObservedGraph();
  const std::string bytes = NpyFloats({kSamples, kIn}, TestData());
  const auto one = CollectStats(graph, *Data(graph, bytes, 1), 2, "", log_);
  for (const size_t batch : {0u, 3u, 100u}) {
    const auto many = CollectStats(graph, *Data(graph, bytes, batch), 2, "", log_);
    EXPECT_EQ(many[1].Serialize(), one[1].Serialize()) << batch;
    EXPECT_EQ(many[0].samples(), one[0].samples()) << batch;
    EXPECT_NEAR(many[0].amax(), one[0].amax(), 1e-5 * one[0].amax()) << batch;
  }
}

TEST_F(PassesTest, NonFiniteAndEmptyTensors) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  TestGraph g;
  g.Input("x", {1, kIn}).Output("y", {-1, 2});
  g.Tap(kObserveOp, 0, {"x"}, "x1");
  g.Node("NonZero", {"x1"}, {"nz"});  // [2, how many]
  g.Node("Transpose", {"nz"}, {"t"});
  SetAttribute(g.Node("Cast", {"t"}, {"f"}), "to", onnx::TensorProto::FLOAT);
  g.Tap(kObserveOp, 1, {"f"}, "y");
  const RunnableGraph graph = g.Build();
  const auto data =
      Data(graph, NpyFloats({3, kIn}, {1, nan, inf, -2, 0, 0, 0, 0, -inf, 5, nan, 0}));
  const auto stats = CollectStats(graph, *data, 2, "", log_);
  EXPECT_EQ(stats[0].nan_count(), 2u);
  EXPECT_EQ(stats[0].inf_count(), 2u);
  EXPECT_EQ(stats[0].count(), 8u);
  EXPECT_EQ(stats[0].amax(), 5.0f);
  EXPECT_EQ(stats[1].samples(), 2u) << "one sample left the tensor empty";
}

TEST_F(PassesTest, ErrorsNameTheFile) {
  TestGraph g;
  g.Input("x", {-1, kIn}).Output("y", {-1, kIn});
  g.Weight("w", {kIn, kIn}, std::vector<float>(kIn * kIn, 1));
  g.Ints("shape", {2}, {2, -1});
  g.Node("Reshape", {"x", "shape"}, {"r"});  // [2, 2]: does not fit the weight
  g.Node("MatMul", {"r", "w"}, {"y"});
  const RunnableGraph graph = g.Build();
  const auto data = Data(graph, NpyFloats({1, kIn}, {1, 2, 3, 4}));
  try {
    CollectStats(graph, *data, 0, "", log_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kModel);
    EXPECT_THAT(error.where(), testing::HasSubstr("x.npy"));
    EXPECT_THAT(error.message(), testing::HasSubstr("MatMul node"));
    EXPECT_THAT(error.message(), testing::Not(testing::HasSubstr("status code")));
  }
  DataOptions options;
  options.source = "random:1";
  try {
    CollectStats(graph, *OpenDataset(options, graph.inputs, log_), 0, "", log_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.hint(), testing::HasSubstr("real data"));
  }
}

// One layer: x -> floor(x) -> times a weight. The quantized network has another weight.
EvaluationGraphs OneLayer() {
  EvaluationGraphs graphs;
  TestGraph g;
  g.Input("x", {-1, kIn}).Output("y", {-1, kOut});
  g.Weight("w", {kIn, kOut}, TestWeights(0)).Weight("wq", {kIn, kOut}, TestWeights(0.6f));
  g.Node("Floor", {"x"}, {"xq"});
  g.Tap(kCompareOp, 0, {"x", "xq"}, "x1");
  g.Node("MatMul", {"x1", "w"}, {"m"});
  g.Node("MatMul", {"xq", "wq"}, {"mq"});
  g.Tap(kCompareOp, 1, {"m", "mq"}, "m1");
  g.Tap(kObserveOp, 2, {"m1"}, "m2");
  g.Node("Relu", {"m2"}, {"y"});
  graphs.original = g.Build();
  graphs.original_taps = {
      {TapKind::kActivation, 1}, {TapKind::kOutput, 2}, {TapKind::kLayerOutput, 2}};
  TestGraph q;
  q.Input("x", {-1, kIn}).Output("y", {-1, kOut}).Weight("wq", {kIn, kOut}, TestWeights(0.6f));
  q.Node("Floor", {"x"}, {"xq"});
  q.Node("MatMul", {"xq", "wq"}, {"mq"});
  q.Tap(kObserveOp, 0, {"mq"}, "m1");
  q.Node("Relu", {"m1"}, {"y"});
  graphs.quantized = q.Build();
  graphs.quantized_taps = {{TapKind::kLayerOutput, 2}};
  return graphs;
}

TEST_F(PassesTest, MeasuresWhatPlainLoopsGive) {
  constexpr float kScale = 7.2e-5f;  // 40960 times that lies within the data
  const EvaluationGraphs graphs = OneLayer();
  const std::vector<float> x = TestData();
  std::vector<float> xq;
  xq.reserve(x.size());
  for (const float v : x) xq.push_back(std::floor(v));
  const std::vector<double> y = Multiply(x, TestWeights(0));
  const std::vector<double> yq = Multiply(xq, TestWeights(0.6f));
  for (const size_t batch : {1u, 3u}) {
    const auto data = Data(graphs.original, NpyFloats({kSamples, kIn}, x), batch);
    const Measurement result =
        MeasureGraphs(graphs, *data,
                      {.activations = 2,
                       .layers = 3,
                       .quantized = {{1, {{&BuiltinFormats().Get("hif8"), kScale}, 2.5f}}},
                       .operators = {},
                       .stage = "evaluation"},
                      log_);
    EXPECT_EQ(result.samples, kSamples);
    EXPECT_EQ(result.activation[0].count(), 0u);
    EXPECT_EQ(result.activation[1].count(), x.size());
    EXPECT_NEAR(result.activation[1].SqnrDb(), Sqnr(x, xq), 1e-9);
    double zeroed = 0;
    double exceeded = 0;
    double saturated = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i] != 0 && xq[i] == 0) zeroed += 1;
      if (std::abs(x[i]) > 2.5f) exceeded += 1;
      if (std::abs(x[i]) / kScale >= 40960) saturated += 1;
    }
    const auto n = static_cast<double>(x.size());
    EXPECT_GT(saturated, 0);
    EXPECT_DOUBLE_EQ(result.activation[1].ZeroedRate(), zeroed / n);
    EXPECT_DOUBLE_EQ(result.activation[1].ExceededRate(), exceeded / n);
    EXPECT_DOUBLE_EQ(result.activation[1].SaturationRate(), saturated / n);
    EXPECT_NEAR(result.output[2].SqnrDb(), Sqnr(y, yq), 1e-4);
    EXPECT_EQ(result.output[1].count(), 0u);
    EXPECT_NEAR(result.accumulated[2].SqnrDb(), Sqnr(y, yq), 1e-4)
        << "one layer: nothing accumulates";
    std::vector<double> relu = y;
    std::vector<double> relu_q = yq;
    uint64_t equal = 0;
    for (double& v : relu) v = std::max(v, 0.0);
    for (double& v : relu_q) v = std::max(v, 0.0);
    for (size_t r = 0; r < kSamples; ++r) {
      size_t best = 0;
      size_t best_q = 0;
      for (size_t c = 1; c < kOut; ++c) {
        if (relu[r * kOut + c] > relu[r * kOut + best]) best = c;
        if (relu_q[r * kOut + c] > relu_q[r * kOut + best_q]) best_q = c;
      }
      equal += best == best_q ? 1 : 0;
    }
    ASSERT_EQ(result.outputs.size(), 1u);
    EXPECT_EQ(result.outputs[0].name, "y");
    EXPECT_NEAR(result.outputs[0].error.SqnrDb(), Sqnr(relu, relu_q), 1e-4);
    EXPECT_EQ(result.outputs[0].argmax_rows, kSamples);
    EXPECT_EQ(result.outputs[0].argmax_equal, equal);
    EXPECT_LT(equal, kSamples) << "the test should see a difference";
  }
}

onnx::GraphProto* LoopBody(TestGraph* g) {
  auto* loop = g->Node("Loop", {"trips", "", "x"}, {"y"});
  auto* attribute = loop->add_attribute();
  attribute->set_name("body");
  attribute->set_type(onnx::AttributeProto::GRAPH);
  auto* body = attribute->mutable_g();
  body->set_name("body");
  for (const char* name : {"i", "cond", "state"}) {
    auto* input = body->add_input();
    input->set_name(name);
    auto* type = input->mutable_type()->mutable_tensor_type();
    const std::string text(name);
    type->set_elem_type(text == "i"      ? onnx::TensorProto::INT64
                        : text == "cond" ? onnx::TensorProto::BOOL
                                         : onnx::TensorProto::FLOAT);
    if (text != "state") type->mutable_shape();
  }
  auto* identity = body->add_node();
  identity->set_op_type("Identity");
  identity->add_input("cond");
  identity->add_output("cond1");
  for (const char* name : {"cond1", "next"}) {
    auto* output = body->add_output();
    output->set_name(name);
    output->mutable_type()->mutable_tensor_type()->set_elem_type(
        std::string(name) == "next" ? onnx::TensorProto::FLOAT : onnx::TensorProto::BOOL);
  }
  return body;
}

// state -> state * factor, three times; the tap sees the product.
RunnableGraph LoopGraph(float factor) {
  TestGraph g;
  g.Input("x", {1, 1}).Output("y", {1, 1}).Weight("f", {1, 1}, {factor}).Ints("trips", {}, {3});
  auto* body = LoopBody(&g);
  auto* mul = body->add_node();
  mul->set_op_type("Mul");
  mul->add_input("state");
  mul->add_input("f");
  mul->add_output("product");
  AddTap(body, kObserveOp, 0, {"product"}, "next");
  return g.Build();
}

TEST_F(PassesTest, ALayerInALoopIsComparedIterationByIteration) {
  EvaluationGraphs graphs;
  graphs.original = LoopGraph(2);
  graphs.quantized = LoopGraph(2.5f);
  graphs.original_taps = graphs.quantized_taps = {{TapKind::kLayerOutput, 0}};
  const auto data = Data(graphs.original, NpyFloats({2, 1}, {1, -3}));
  const Measurement result = MeasureGraphs(
      graphs, *data, {.activations = 0, .layers = 1, .quantized = {}, .operators = {}, .stage = ""},
      log_);
  EXPECT_EQ(result.accumulated[0].count(), 6u);
  const std::vector<double> x = {2, 4, 8, -6, -12, -24};
  const std::vector<double> y = {2.5, 6.25, 15.625, -7.5, -18.75, -46.875};
  EXPECT_NEAR(result.accumulated[0].SqnrDb(), Sqnr(x, y), 1e-9);
}

TEST_F(PassesTest, OutputsThatCannotBeComparedAreLeftOut) {
  const auto build = [](float threshold) {
    TestGraph g;
    g.Input("x", {1, kIn}).Output("y", {-1}).Output("n", {2, -1}, DType::kI64);
    g.Weight("t", {}, {threshold});
    g.Node("Greater", {"x", "t"}, {"c"});
    SetAttribute(g.Node("Compress", {"x", "c1"}, {"y"}), "axis", 1);
    g.Ints("flat", {1}, {-1});
    g.Node("Reshape", {"c", "flat"}, {"c1"});
    g.Node("NonZero", {"c"}, {"n"});
    // Nodes in order: Reshape before Compress.
    g.graph().mutable_node()->SwapElements(1, 2);
    g.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
    return g.Build();
  };
  EvaluationGraphs graphs;
  graphs.original = build(0);
  graphs.quantized = build(2.5f);
  const auto data = Data(graphs.original, NpyFloats({2, kIn}, {1, 2, 3, 4, -1, -1, 4, 5}));
  const Measurement result = MeasureGraphs(
      graphs, *data, {.activations = 0, .layers = 0, .quantized = {}, .operators = {}, .stage = ""},
      log_);
  ASSERT_EQ(result.outputs.size(), 2u);
  EXPECT_EQ(result.outputs[0].error.count(), 2u) << "the second run alone has equal shapes";
  EXPECT_EQ(result.outputs[1].error.count(), 0u) << "integers";
  EXPECT_EQ(log_.warnings.size(), 1u);
}

}  // namespace
}  // namespace hif8
