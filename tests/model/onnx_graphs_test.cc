// Graphs with taps, run in the engine: what is observed is what the layers read.
#include "lib/model/onnx/onnx_graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "lib/runtime/session.h"
#include "tests/model/onnx_builder.h"

namespace hif8 {
namespace {

using testing::ElementsAre;

Tensor Floats(const Shape& shape, const std::vector<float>& values) {
  std::byte* data = nullptr;
  Tensor tensor = Tensor::Allocate(DType::kF32, shape, &data);
  std::copy_n(reinterpret_cast<const std::byte*>(values.data()), values.size() * 4, data);
  return tensor;
}

Tensor Bool(bool value) {
  std::byte* data = nullptr;
  Tensor tensor = Tensor::Allocate(DType::kBool, {}, &data);
  *data = static_cast<std::byte>(value);
  return tensor;
}

std::vector<float> Values(const TensorView& view) {
  std::vector<float> values(view.size());
  ConvertToFloat(view.dtype, view.data, values.size(), values.data());
  return values;
}

// Keeps what was observed, all runs of a tap one after the other.
class Recorder : public TapSink {
 public:
  void Observe(int id, const TensorView& x) override {
    const std::vector<float> values = Values(x);
    observed[id].insert(observed[id].end(), values.begin(), values.end());
  }
  void Compare(int, const TensorView&, const TensorView&) override {}
  std::map<int, std::vector<float>> observed;
};

std::vector<int> AllActivations(const OnnxModel& model) {
  std::vector<int> all(model.activations().size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<float> RunObserved(const OnnxModel& model, const NamedTensors& inputs, Recorder* taps) {
  const RunnableGraph graph = BuildObservedGraph(model, AllActivations(model));
  SessionOptions options;
  options.threads = 1;
  options.taps = taps;
  Session session(graph, options);
  return Values(session.Run(inputs).at(0).view);
}

ModelBuilder TwoLayers() {
  ModelBuilder b;
  b.Input("x", {-1, 2}).Output("y").Weight("w", {2, 2}, {1, 2, 3, 4});
  b.Node("MatMul", {"x", "w"}, {"h"}, "first");
  b.Node("Relu", {"h"}, {"r"});
  b.Node("MatMul", {"r", "w"}, {"m"}, "second");
  b.Node("Add", {"m", "r"}, {"y"});
  return b;
}

TEST(OnnxObservedGraph, SeesWhatLayersReadAndChangesNothing) {
  TestFolder folder;
  for (const uint64_t map_from : {uint64_t{1} << 20, uint64_t{1}}) {
    const auto model = LoadModel(TwoLayers().Save(folder.path()), {.map_from_bytes = map_from});
    Recorder taps;
    const auto y = RunObserved(*model, {{"x", Floats({1, 2}, {1, -2})}}, &taps);
    // h = [1 - 6, 2 - 8], r = 0, y = 0
    EXPECT_THAT(y, ElementsAre(0, 0));
    EXPECT_THAT(taps.observed[0], ElementsAre(1, -2));
    EXPECT_THAT(taps.observed[1], ElementsAre(0, 0));
    Recorder more;
    EXPECT_THAT(RunObserved(*model, {{"x", Floats({2, 2}, {1, 1, 0, 1})}}, &more),
                ElementsAre(26, 38, 18, 26));
    EXPECT_THAT(more.observed[1], ElementsAre(4, 6, 3, 4));
  }
}

TEST(OnnxObservedGraph, OnlyTheAskedOnes) {
  TestFolder folder;
  const auto model = LoadModel(TwoLayers().Save(folder.path()));
  const RunnableGraph graph = BuildObservedGraph(*model, std::vector<int>{1});
  Recorder taps;
  SessionOptions options;
  options.taps = &taps;
  Session(graph, options).Run({{"x", Floats({1, 2}, {1, 1})}});
  EXPECT_EQ(taps.observed.size(), 1u);
  EXPECT_THAT(taps.observed[1], ElementsAre(4, 6));
}

TEST(OnnxObservedGraph, WorksOnExternalDataThroughLinks) {
  TestFolder store, view;
  ModelBuilder b = TwoLayers();
  MoveToFile(b.tensor("w"), store / "0002", "model.onnx.data");
  b.Save(store.path(), "0001");
  std::filesystem::create_symlink(store / "0001", view / "model.onnx");
  std::filesystem::create_symlink(store / "0002", view / "model.onnx.data");
  const auto model = LoadModel(view / "model.onnx");
  Recorder taps;
  EXPECT_THAT(RunObserved(*model, {{"x", Floats({1, 2}, {1, 1})}}, &taps), ElementsAre(26, 38));
}

// y = if cond then (x w) else (2 x w)
ModelBuilder Branches() {
  ModelBuilder b;
  b.Input("cond", {}, DType::kBool).Input("x", {1, 2}).Output("y");
  b.Weight("w", {2, 2}, {1, 2, 3, 4});
  auto* node = b.Node("If", {"cond"}, {"y"}, "choice");
  GraphBuilder yes = AddBody(node, "then_branch");
  yes.Output("t");
  yes.Node("MatMul", {"x", "w"}, {"t"}, "yes");
  GraphBuilder no = AddBody(node, "else_branch");
  no.Output("e");
  no.Node("Add", {"x", "x"}, {"xx"});
  no.Node("MatMul", {"xx", "w"}, {"e"}, "no");
  return b;
}

TEST(OnnxObservedGraph, ABranchThatIsNotTakenObservesNothing) {
  TestFolder folder;
  const auto model = LoadModel(Branches().Save(folder.path()));
  ASSERT_EQ(model->activations().size(), 2u);
  Recorder yes, no;
  EXPECT_THAT(RunObserved(*model, {{"cond", Bool(true)}, {"x", Floats({1, 2}, {1, 1})}}, &yes),
              ElementsAre(4, 6));
  EXPECT_EQ(yes.observed.size(), 1u);
  EXPECT_THAT(yes.observed[FindLayer(*model, "yes").activation], ElementsAre(1, 1));
  EXPECT_THAT(RunObserved(*model, {{"cond", Bool(false)}, {"x", Floats({1, 2}, {1, 1})}}, &no),
              ElementsAre(8, 12));
  EXPECT_EQ(no.observed.size(), 1u);
  EXPECT_THAT(no.observed[FindLayer(*model, "no").activation], ElementsAre(2, 2));
}

TEST(OnnxObservedGraph, BothOperandsOfAProduct) {
  TestFolder folder;
  ModelBuilder b;
  b.Input("q", {1, 2}).Input("k", {2, 1}).Output("p");
  b.Node("MatMul", {"q", "k"}, {"p"}, "scores");
  const auto model = LoadModel(b.Save(folder.path()));
  Recorder taps;
  EXPECT_THAT(
      RunObserved(*model, {{"q", Floats({1, 2}, {1, 2})}, {"k", Floats({2, 1}, {3, 4})}}, &taps),
      ElementsAre(11));
  EXPECT_THAT(taps.observed[0], ElementsAre(1, 2));
  EXPECT_THAT(taps.observed[1], ElementsAre(3, 4));
  ModelBuilder same;
  same.Input("q", {2, 2}).Output("p");
  same.Node("MatMul", {"q", "q"}, {"p"}, "square");
  Recorder once;
  EXPECT_THAT(RunObserved(*LoadModel(same.Save(folder.path())),
                          {{"q", Floats({2, 2}, {1, 2, 3, 4})}}, &once),
              ElementsAre(7, 10, 15, 22));
  EXPECT_THAT(once.observed[0], ElementsAre(1, 2, 3, 4));
}

// The same network in half, bfloat and float; every number in it is exact in all three.
TEST(OnnxObservedGraph, NarrowFloatTypes) {
  TestFolder folder;
  const auto build = [&](DType dtype, const std::vector<uint16_t>& w) {
    ModelBuilder b;
    b.Input("x", {1, 2}, dtype).Output("y", dtype);
    onnx::TensorProto* tensor = b.graph().add_initializer();
    tensor->set_name("w");
    tensor->set_data_type(dtype == DType::kF16 ? onnx::TensorProto::FLOAT16
                                               : onnx::TensorProto::BFLOAT16);
    tensor->add_dims(2);
    tensor->add_dims(2);
    tensor->set_raw_data(w.data(), 8);
    b.Node("MatMul", {"x", "w"}, {"h"}, "layer");
    SetAttribute(b.Node("Cast", {"h"}, {"f"}), "to", onnx::TensorProto::FLOAT);
    SetAttribute(b.Node("Cast", {"f"}, {"y"}), "to", tensor->data_type());
    return LoadModel(b.Save(folder.path()));
  };
  const auto half = build(DType::kF16, {0x3C00, 0x4000, 0x4200, 0x4400});
  std::byte* data = nullptr;
  Tensor x = Tensor::Allocate(DType::kF16, {1, 2}, &data);
  const float ones[] = {1, 1};
  ConvertFromFloat(DType::kF16, ones, 2, data);
  Recorder taps;
  EXPECT_THAT(RunObserved(*half, {{"x", x}}, &taps), ElementsAre(4, 6));
  EXPECT_THAT(taps.observed[0], ElementsAre(1, 1));
  const auto brain = build(DType::kBF16, {0x3F80, 0x4000, 0x4040, 0x4080});
  EXPECT_EQ(BuildObservedGraph(*brain, std::vector<int>{0}).inputs.at(0).dtype, DType::kF32);
  Recorder more;
  EXPECT_THAT(RunObserved(*brain, {{"x", Floats({1, 2}, {1, 1})}}, &more), ElementsAre(4, 6));
  EXPECT_THAT(more.observed[0], ElementsAre(1, 1));
}

}  // namespace
}  // namespace hif8
