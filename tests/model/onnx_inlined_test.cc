// Models written without functions: what other programs leave of them is still read.
#include <gtest/gtest.h>

#include "formats/builtin.h"
#include "lib/model/onnx/onnx_writer.h"
#include "lib/model/onnx/plain_operators.h"
#include "tests/model/onnx_builder.h"
#include "tests/model/onnx_quantize.h"

namespace hif8 {
namespace {

// Two layers, one behind the other.
class OnnxInlined : public ::testing::Test {
 protected:
  void SetUp() override {
    ModelBuilder b(11);
    b.Input("x", {-1, 8}).Weight("w", {8, 8}, Numbers(64, 1)).Output("y");
    b.Node("MatMul", {"x", "w"}, {"h"});
    b.Weight("v", {8, 4}, Numbers(32, 2));
    b.Node("MatMul", {"h", "v"}, {"y"});
    model_ = LoadModel(b.Save(in_.path()));
    OnnxWritePlan plan = ReferenceQuantizer(*model_).PlanAll();
    WriteOnnxModel(*model_, plan, BuiltinFormats(), functions_.path(), NullLog());
    plan.inlined = true;
    WriteOnnxModel(*model_, plan, BuiltinFormats(), plain_.path(), NullLog());
  }

  TestFolder in_, functions_, plain_;
  std::unique_ptr<OnnxModel> model_;
};

int Calls(const onnx::ModelProto& model) {
  int calls = 0;
  for (const onnx::NodeProto& node : model.graph().node()) calls += node.domain().empty() ? 0 : 1;
  return calls;
}

TEST_F(OnnxInlined, FoldingGivesTheCallsBack) {
  const onnx::ModelProto expected = ParseFile(functions_ / "model.onnx");
  onnx::ModelProto found = ParseFile(plain_ / "model.onnx");
  EXPECT_EQ(Calls(found), 0);
  FoldPlainOperators(&found);
  EXPECT_EQ(found.functions_size(), expected.functions_size());
  EXPECT_EQ(found.graph().initializer_size(), expected.graph().initializer_size());
  ASSERT_EQ(found.graph().node_size(), expected.graph().node_size());
  for (int i = 0; i < found.graph().node_size(); ++i) {
    EXPECT_EQ(found.graph().node(i).SerializeAsString(),
              expected.graph().node(i).SerializeAsString());
  }
  // The functions' bodies are the file's own nodes: expanded again, they are what they were.
  ExpandFormatFunctions(&found);
  EXPECT_EQ(found.graph().node_size(), ParseFile(plain_ / "model.onnx").graph().node_size());
}

TEST_F(OnnxInlined, ChangedNodesAreNoCallAnyMore) {
  onnx::ModelProto changed = ParseFile(plain_ / "model.onnx");
  onnx::ModelProto untouched = changed;
  FoldPlainOperators(&untouched);
  // One operator of one call is another: that call is no equal of the first one of its function.
  for (int i = changed.graph().node_size() - 1; i >= 0; --i) {
    onnx::NodeProto* node = changed.mutable_graph()->mutable_node(i);
    if (node->op_type() != "Floor") continue;
    node->set_op_type("Ceil");
    break;
  }
  FoldPlainOperators(&changed);
  EXPECT_EQ(Calls(changed), Calls(untouched) - 1);
}

TEST_F(OnnxInlined, AValueThatSomebodyElseReadsStays) {
  onnx::ModelProto read = ParseFile(plain_ / "model.onnx");
  onnx::ModelProto untouched = read;
  FoldPlainOperators(&untouched);
  std::string inside;
  for (const onnx::NodeProto& node : read.graph().node()) {
    if (node.op_type() == "Floor") inside = node.output(0);
  }
  onnx::NodeProto* reader = read.mutable_graph()->add_node();
  reader->set_op_type("Neg");
  reader->add_input(inside);
  reader->add_output("more");
  FoldPlainOperators(&read);
  EXPECT_EQ(Calls(read), Calls(untouched) - 1);
}

}  // namespace
}  // namespace hif8
