#include "lib/runtime/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "lib/core/error.h"
#include "tests/runtime/test_graph.h"

namespace hif8 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Seen {
  int id;
  DType dtype;
  Shape shape;
  std::vector<float> values;
  const std::byte* data;
};

class RecordingSink : public TapSink {
 public:
  void Observe(int id, const TensorView& x) override {
    seen.push_back({id, x.dtype, x.shape, Floats(x), x.data});
  }
  void Compare(int id, const TensorView& x, const TensorView& y) override {
    seen.push_back({id, x.dtype, x.shape, Floats(x), x.data});
    compared.push_back(Floats(y));
  }
  std::vector<Seen> seen;
  std::vector<std::vector<float>> compared;
};

std::vector<Tensor> RunOnce(const RunnableGraph& graph, TapSink* sink, const NamedTensors& inputs) {
  Session session(graph, {.threads = 1, .log = nullptr, .taps = sink, .operators = {}});
  return session.Run(inputs);
}

TEST(Session, RunsAndGivesOutputsInOrder) {
  TestGraph g;
  g.Input("x", {-1, 2}).Output("a", {-1, 3}).Output("b", {-1, 2});
  g.Weight("w", {2, 3}, {1, 2, 3, 4, 5, 6});
  g.Node("MatMul", {"x", "w"}, {"a"});
  g.Node("Neg", {"x"}, {"b"});
  const auto outputs = RunOnce(g.Build(), nullptr, {{"x", FloatTensor({2, 2}, {1, 10, 2, 20})}});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].view.shape, (Shape{2, 3}));
  EXPECT_THAT(Floats(outputs[0].view), ElementsAre(41, 52, 63, 82, 104, 126));
  EXPECT_THAT(Floats(outputs[1].view), ElementsAre(-1, -10, -2, -20));
}

TEST(Session, UnalignedInputsAreReadRightly) {
  TestGraph g;
  g.Input("x", {3}).Output("y", {3});
  g.Node("Neg", {"x"}, {"y"});
  std::vector<std::byte> bytes(13);
  const float values[3] = {1.5f, -2.0f, 3.25f};
  std::memcpy(bytes.data() + 1, values, sizeof values);
  const Tensor x{{DType::kF32, {3}, bytes.data() + 1}, nullptr};
  EXPECT_THAT(Floats(RunOnce(g.Build(), nullptr, {{"x", x}})[0].view),
              ElementsAre(-1.5f, 2.0f, -3.25f));
}

TEST(Session, TapsSeeInnerTensorsWithoutCopy) {
  TestGraph g;
  g.Input("x", {4}).Output("y", {4});
  g.Tap(kObserveOp, 0, {"x"}, "x1").Tap(kObserveOp, 1, {"x1"}, "x2");
  g.Node("Neg", {"x2"}, {"n"});
  g.Tap(kObserveOp, 2, {"n"}, "n1").Tap(kCompareOp, 3, {"n1", "x"}, "n2");
  g.Tap(kObserveOp, 4, {"n2"}, "n3");
  g.Node("Abs", {"n3"}, {"y"});
  RecordingSink sink;
  const Tensor x = FloatTensor({4}, {1, -2, 3, -4});
  RunOnce(g.Build(), &sink, {{"x", x}});
  ASSERT_EQ(sink.seen.size(), 5u);
  EXPECT_THAT(sink.seen[2].values, ElementsAre(-1, 2, -3, 4));
  EXPECT_EQ(sink.seen[0].data, x.view.data);
  EXPECT_EQ(sink.seen[1].data, x.view.data) << "even the caller's buffer is passed on";
  EXPECT_EQ(sink.seen[3].data, sink.seen[2].data) << "a chain of taps shares one buffer";
  EXPECT_EQ(sink.seen[4].data, sink.seen[2].data);
}

TEST(Session, AliasedBuffersAreNotOverwrittenWhileOthersReadThem) {
  // Relu could work in place on the tap's output, but n is read again by Add.
  TestGraph g;
  g.Input("x", {4}).Output("y", {4});
  g.Node("Neg", {"x"}, {"n"});
  g.Tap(kObserveOp, 0, {"n"}, "n1");
  g.Node("Relu", {"n1"}, {"r"});
  g.Node("Tanh", {"r"}, {"t"});
  g.Node("Add", {"t", "n"}, {"y"});
  const auto outputs = RunOnce(g.Build(), nullptr, {{"x", FloatTensor({4}, {1, -2, 3, -4})}});
  EXPECT_THAT(Floats(outputs[0].view), ElementsAre(-1.0f, testing::FloatEq(2 + std::tanh(2.0f)),
                                                   -3.0f, testing::FloatEq(4 + std::tanh(4.0f))));
}

TEST(Session, TapsSeeGraphInputsOutputsAndConstants) {
  TestGraph g;
  g.Input("x", {2}).Output("y", {2});
  g.Weight("c", {2}, {10, 20});
  g.Tap(kObserveOp, 0, {"x"}, "x1");
  g.Tap(kObserveOp, 1, {"c"}, "c1");
  g.Node("Neg", {"c1"}, {"nc"});  // constant but for the tap
  g.Tap(kObserveOp, 2, {"nc"}, "nc1");
  g.Node("Add", {"x1", "nc1"}, {"s"});
  g.Tap(kObserveOp, 3, {"s"}, "y");
  RecordingSink sink;
  const Tensor x = FloatTensor({2}, {1, 2});
  Session session(g.Build(), {.threads = 1, .log = nullptr, .taps = &sink, .operators = {}});
  for (int run = 0; run < 2; ++run) {
    sink.seen.clear();
    const auto outputs = session.Run({{"x", x}});
    EXPECT_THAT(Floats(outputs[0].view), ElementsAre(-9, -18));
    ASSERT_EQ(sink.seen.size(), 4u) << "run " << run;
    std::map<int, std::vector<float>> by_id;
    for (const Seen& seen : sink.seen) by_id[seen.id] = seen.values;
    EXPECT_THAT(by_id[0], ElementsAre(1, 2));
    EXPECT_THAT(by_id[1], ElementsAre(10, 20));
    EXPECT_THAT(by_id[2], ElementsAre(-10, -20));
    EXPECT_THAT(by_id[3], ElementsAre(-9, -18));
    EXPECT_THAT(Floats(x.view), ElementsAre(1, 2)) << "the caller's data is untouched";
  }
}

TEST(Session, TapDirectlyFromInputToOutputCopies) {
  TestGraph g;
  g.Input("x", {2}).Output("y", {2});
  g.Tap(kObserveOp, 0, {"x"}, "y");
  const Tensor x = FloatTensor({2}, {1, 2});
  const auto outputs = RunOnce(g.Build(), nullptr, {{"x", x}});
  EXPECT_THAT(Floats(outputs[0].view), ElementsAre(1, 2));
}

TEST(Session, TapsSeeEveryFloatType) {
  const DType dtypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64};
  for (const DType dtype : dtypes) {
    TestGraph g;
    g.Input("x", {-1}, dtype).Output("y", {-1}, DType::kF32);
    g.Tap(kObserveOp, 7, {"x"}, "x1");
    SetAttribute(g.Node("Cast", {"x1"}, {"y"}), "to", onnx::TensorProto::FLOAT);
    const std::vector<float> values = {0.5f, -3.0f, 0.0f};
    std::byte* data = nullptr;
    Tensor x = Tensor::Allocate(dtype, {3}, &data);
    ConvertFromFloat(dtype, values.data(), 3, data);
    RecordingSink sink;
    const auto outputs = RunOnce(g.Build(), &sink, {{"x", x}});
    ASSERT_EQ(sink.seen.size(), 1u) << DTypeName(dtype);
    EXPECT_EQ(sink.seen[0].dtype, dtype);
    EXPECT_EQ(sink.seen[0].values, values);
    EXPECT_EQ(Floats(outputs[0].view), values);
  }
}

TEST(Session, TapsSeeEmptyTensors) {
  TestGraph g;
  g.Input("x", {-1, 4}).Output("y", {-1, 4});
  g.Tap(kObserveOp, 0, {"x"}, "x1");
  g.Node("Neg", {"x1"}, {"n"});
  g.Tap(kCompareOp, 1, {"n", "x"}, "y");
  RecordingSink sink;
  const auto outputs = RunOnce(g.Build(), &sink, {{"x", FloatTensor({0, 4}, {})}});
  ASSERT_EQ(sink.seen.size(), 2u);
  EXPECT_EQ(sink.seen[0].shape, (Shape{0, 4}));
  EXPECT_EQ(sink.seen[1].shape, (Shape{0, 4}));
  EXPECT_EQ(outputs[0].view.shape, (Shape{0, 4}));
}

TEST(Session, CompareGetsBothAndPassesTheFirstOn) {
  TestGraph g;
  g.Input("x", {3}).Output("y", {3});
  g.Node("Neg", {"x"}, {"n"});
  g.Node("Abs", {"x"}, {"a"});
  g.Tap(kCompareOp, 5, {"n", "a"}, "c");
  g.Node("Neg", {"c"}, {"y"});
  RecordingSink sink;
  const auto outputs = RunOnce(g.Build(), &sink, {{"x", FloatTensor({3}, {1, -2, 3})}});
  ASSERT_EQ(sink.seen.size(), 1u);
  EXPECT_EQ(sink.seen[0].id, 5);
  EXPECT_THAT(sink.seen[0].values, ElementsAre(-1, 2, -3));
  EXPECT_THAT(sink.compared[0], ElementsAre(1, 2, 3));
  EXPECT_THAT(Floats(outputs[0].view), ElementsAre(1, -2, 3));
}

onnx::GraphProto* Subgraph(onnx::NodeProto* node, const std::string& name) {
  auto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::GRAPH);
  attribute->mutable_g()->set_name(name);
  return attribute->mutable_g();
}

void AddNode(onnx::GraphProto* graph, const std::string& op, const std::vector<std::string>& inputs,
             const std::string& output) {
  auto* node = graph->add_node();
  node->set_op_type(op);
  for (const std::string& name : inputs) node->add_input(name);
  node->add_output(output);
}

void AddValue(onnx::ValueInfoProto* info, const std::string& name, int type, bool scalar) {
  info->set_name(name);
  info->mutable_type()->mutable_tensor_type()->set_elem_type(type);
  if (scalar) info->mutable_type()->mutable_tensor_type()->mutable_shape();
}

TEST(Session, TapsInBranchesSeeTheBranchThatIsTaken) {
  TestGraph g;
  g.Input("x", {2}).Input("c", {}, DType::kBool).Output("y", {2});
  auto* node = g.Node("If", {"c"}, {"y"});
  int id = 0;
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto* body = Subgraph(node, branch);
    AddTap(body, kObserveOp, id, {"x"}, std::string(branch) + "_x");  // from the outer scope
    AddNode(body, id == 0 ? "Neg" : "Abs", {std::string(branch) + "_x"},
            std::string(branch) + "_y");
    AddValue(body->add_output(), std::string(branch) + "_y", onnx::TensorProto::FLOAT, false);
    ++id;
  }
  RecordingSink sink;
  const std::byte no{0};
  const Tensor c{{DType::kBool, {}, &no}, nullptr};
  const auto outputs = RunOnce(g.Build(), &sink, {{"x", FloatTensor({2}, {1, -2})}, {"c", c}});
  EXPECT_THAT(Floats(outputs[0].view), ElementsAre(1, 2));
  ASSERT_EQ(sink.seen.size(), 1u);
  EXPECT_EQ(sink.seen[0].id, 1);
}

TEST(Session, TapsInLoopsSeeEveryIterationInOrder) {
  TestGraph g;
  g.Input("x", {1}).Output("y", {1});
  g.Ints("trips", {}, {3});
  auto* loop = g.Node("Loop", {"trips", "", "x"}, {"y"});
  auto* body = Subgraph(loop, "body");
  AddValue(body->add_input(), "i", onnx::TensorProto::INT64, true);
  AddValue(body->add_input(), "cond", onnx::TensorProto::BOOL, true);
  AddValue(body->add_input(), "state", onnx::TensorProto::FLOAT, false);
  AddTap(body, kObserveOp, 4, {"state"}, "state1");
  AddNode(body, "Add", {"state1", "state1"}, "next");
  AddNode(body, "Identity", {"cond"}, "cond1");
  AddValue(body->add_output(), "cond1", onnx::TensorProto::BOOL, true);
  AddValue(body->add_output(), "next", onnx::TensorProto::FLOAT, false);
  RecordingSink sink;
  const auto outputs = RunOnce(g.Build(), &sink, {{"x", FloatTensor({1}, {5})}});
  EXPECT_THAT(Floats(outputs[0].view), ElementsAre(40));
  ASSERT_EQ(sink.seen.size(), 3u);
  EXPECT_THAT(sink.seen[0].values, ElementsAre(5));
  EXPECT_THAT(sink.seen[1].values, ElementsAre(10));
  EXPECT_THAT(sink.seen[2].values, ElementsAre(20));
}

TEST(Session, WhatATapThrowsComesOut) {
  class Throwing : public TapSink {
   public:
    void Observe(int, const TensorView&) override {
      throw UsageError("from the tap", "a hint", "somewhere");
    }
    void Compare(int, const TensorView&, const TensorView&) override {}
  };
  TestGraph g;
  g.Input("x", {1}).Output("y", {1});
  g.Tap(kObserveOp, 0, {"x"}, "x1");
  g.Node("Neg", {"x1"}, {"y"});
  Throwing sink;
  try {
    RunOnce(g.Build(), &sink, {{"x", FloatTensor({1}, {5})}});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_EQ(error.message(), "from the tap");
    EXPECT_EQ(error.hint(), "a hint");
  }
}

TEST(Session, ExternalDataIsReadFromItsFolder) {
  const auto dir = std::filesystem::path(testing::TempDir()) / "session_external";
  std::filesystem::create_directories(dir);
  const float weights[2] = {3, 4};
  std::ofstream(dir / "w.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(weights), sizeof weights);
  TestGraph g;
  g.Input("x", {2}).Output("y", {2});
  g.Node("Mul", {"x", "w"}, {"y"});
  auto* w = g.graph().add_initializer();
  w->set_name("w");
  w->set_data_type(onnx::TensorProto::FLOAT);
  w->add_dims(2);
  w->set_data_location(onnx::TensorProto::EXTERNAL);
  auto* location = w->add_external_data();
  location->set_key("location");
  location->set_value("w.bin");
  RunnableGraph graph = g.Build();
  graph.data_dir = dir;
  EXPECT_THAT(Floats(RunOnce(graph, nullptr, {{"x", FloatTensor({2}, {1, 10})}})[0].view),
              ElementsAre(3, 40));
  std::filesystem::remove_all(dir);
  try {
    RunOnce(graph, nullptr, {{"x", FloatTensor({2}, {1, 10})}});
    FAIL() << "the data is gone";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kModel) << error.what();
  }
}

void ExpectModelError(const std::function<void()>& body, const std::string& part) {
  try {
    body();
    FAIL() << "no error; expected one with '" << part << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kModel);
    EXPECT_THAT(error.message(), HasSubstr(part));
    EXPECT_THAT(error.message(), testing::Not(HasSubstr(".cc:")));
    EXPECT_THAT(error.message(), testing::Not(HasSubstr("\n")));
  }
}

TEST(Session, ErrorsNameWhatIsWrong) {
  const Tensor x = FloatTensor({2}, {1, 2});
  TestGraph unknown;
  unknown.Input("x", {2}).Output("y", {2});
  unknown.Node("Frobnicate", {"x"}, {"y"});
  ExpectModelError([&] { RunOnce(unknown.Build(), nullptr, {{"x", x}}); }, "Frobnicate");

  TestGraph arity;
  arity.Input("x", {2}).Output("y", {2});
  arity.Node("MatMul", {"x"}, {"y"});
  ExpectModelError([&] { RunOnce(arity.Build(), nullptr, {{"x", x}}); }, "MatMul");

  TestGraph kernel;  // a standard operator, but no kernel for this type
  kernel.Input("x", {2}, DType::kBF16).Output("y", {2}, DType::kBF16);
  kernel.Node("Erf", {"x"}, {"y"});
  ExpectModelError([&] { Session session(kernel.Build(), {}); }, "Erf");

  RunnableGraph garbage;
  garbage.model = "this is not a model";
  ExpectModelError([&] { Session session(garbage, {}); }, "");

  TestGraph good;
  good.Input("x", {2}).Output("y", {2});
  good.Node("Neg", {"x"}, {"y"});
  ExpectModelError([&] { RunOnce(good.Build(), nullptr, {{"z", x}}); }, "'x'");
  ExpectModelError(
      [&] {
        RunOnce(good.Build(), nullptr, {{"x", FloatTensor({3}, {1, 2, 3})}});
      },
      "x");
}

TEST(Session, OutputsThatAreNoTensorsAreLeftOut) {
  TestGraph g;
  g.Input("x", {2}).Output("y", {2});
  g.Node("SequenceConstruct", {"x", "x"}, {"s"});
  auto* info = g.graph().add_output();
  info->set_name("s");
  info->mutable_type()
      ->mutable_sequence_type()
      ->mutable_elem_type()
      ->mutable_tensor_type()
      ->set_elem_type(onnx::TensorProto::FLOAT);
  g.Node("Neg", {"x"}, {"y"});
  const auto outputs = RunOnce(g.Build(), nullptr, {{"x", FloatTensor({2}, {1, 2})}});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_THAT(Floats(outputs[0].view), ElementsAre(-1, -2));
  EXPECT_EQ(outputs[1].owner, nullptr);
}

TEST(Session, EngineVersionIsKnown) {
  EXPECT_THAT(EngineVersion(), testing::MatchesRegex("1\\.[0-9]+\\..*"));
}

}  // namespace
}  // namespace hif8
