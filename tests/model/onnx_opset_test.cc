// Old operator sets: converted, or refused with the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/builtin.h"
#include "lib/model/onnx/onnx_writer.h"
#include "tests/model/onnx_builder.h"
#include "tests/model/onnx_quantize.h"
#include "tests/model/onnx_stock.h"

namespace hif8 {
namespace {

using testing::FloatNear;
using testing::Pointwise;

// Loads the model of an old set, writes it back and runs it; the output "y".
std::vector<float> RunConverted(ModelBuilder& b, const std::map<std::string, Tensor>& inputs) {
  TestFolder folder;
  const auto model = LoadModel(b.Save(folder.path(), "in.onnx"));
  EXPECT_EQ(model->opset(), 9);
  EXPECT_LT(model->stored_opset(), 9);
  const auto written = WriteOnnxModel(*model, {}, BuiltinFormats(), folder.path(), NullLog());
  return RunStock(written.model, inputs)["y"].values;
}

TEST(OnnxOpset, UnchangedOperatorsAreKept) {
  for (const int opset : {7, 8}) {
    ModelBuilder b(opset, 3);
    b.Input("w", {2, 2}).Input("x", {1, 2}).Output("y").Weight("w", {2, 2}, {1, 2, 3, 4});
    b.Node("MatMul", {"x", "w"}, {"h"});
    b.Node("Relu", {"h"}, {"y"});
    EXPECT_THAT(RunConverted(b, {{"x", FloatInput({1, 2}, {1, 1})}}), testing::ElementsAre(4, 6));
  }
}

TEST(OnnxOpset, BroadcastAlongAnAxis) {
  ModelBuilder b(6, 3);
  b.Input("x", {1, 2, 2, 1}).Input("c", {2}).Output("y").Weight("c", {2}, {10, 20});
  onnx::NodeProto* add = b.Node("Add", {"x", "c"}, {"y"});
  SetAttribute(add, "broadcast", 1);
  SetAttribute(add, "axis", 1);
  EXPECT_THAT(RunConverted(b, {{"x", FloatInput({1, 2, 2, 1}, {1, 2, 3, 4})}}),
              testing::ElementsAre(11, 12, 23, 24));
}

TEST(OnnxOpset, SlopesOfChannels) {
  ModelBuilder b(6, 3);
  b.Input("x", {1, 2, 1, 2}).Input("s", {2}).Output("y").Weight("s", {2}, {10, 100});
  b.Node("PRelu", {"x", "s"}, {"y"});
  EXPECT_THAT(RunConverted(b, {{"x", FloatInput({1, 2, 1, 2}, {-1, 2, -3, 4})}}),
              testing::ElementsAre(-10, 2, -300, 4));
}

TEST(OnnxOpset, UpsampleAndBatchNormalization) {
  ModelBuilder b(7, 3);
  b.Input("x", {1, 1, 1, 2}).Output("y");
  for (const char* name : {"scale", "bias", "mean", "var"}) b.Input(name, {1});
  b.Weight("scale", {1}, {2}).Weight("bias", {1}, {1}).Weight("mean", {1}, {0});
  b.Weight("var", {1}, {1});
  onnx::NodeProto* norm =
      b.Node("BatchNormalization", {"x", "scale", "bias", "mean", "var"}, {"n"});
  SetAttribute(norm, "spatial", 1);
  onnx::AttributeProto* scales = b.Node("Upsample", {"n"}, {"y"})->add_attribute();
  scales->set_name("scales");
  scales->set_type(onnx::AttributeProto::FLOATS);
  for (const float s : {1, 1, 1, 2}) scales->add_floats(s);
  EXPECT_THAT(RunConverted(b, {{"x", FloatInput({1, 1, 1, 2}, {1, 2})}}),
              Pointwise(FloatNear(1e-4F), std::vector<float>{3, 3, 5, 5}));
}

// Scan of set 8 has a batch dimension that later ones do not have.
ModelBuilder ScanModel(int opset) {
  ModelBuilder b(opset, 3);
  b.Input("x", {1, 3, 2}).Output("y").Output("m").Weight("w", {2, 2}, {1, 2, 3, 4});
  auto* node = b.Node("Scan", {"", "x"}, {"y"}, "scan");
  SetAttribute(node, "num_scan_inputs", 1);
  GraphBuilder body = AddBody(node, "body");
  body.Input("in", {2}).Output("out").Node("Relu", {"in"}, {"out"});
  b.Node("MatMul", {"x", "w"}, {"m"}, "layer");
  return b;
}

TEST(OnnxOpset, WhatCannotBeConvertedIsRefusedWhenItMatters) {
  TestFolder folder;
  const auto model = LoadModel(ScanModel(8).Save(folder.path(), "in.onnx"));
  EXPECT_EQ(model->opset(), 8);
  const ReferenceQuantizer quantizer(*model);
  OnnxWritePlan plan = quantizer.PlanAll();
  ExpectModelError(
      [&] { WriteOnnxModel(*model, plan, BuiltinFormats(), folder.path(), NullLog()); },
      {"operator set 8", "'scan' (Scan)", "9"});
  plan.simulated = true;  // needs no functions: the set stays
  const auto written = WriteOnnxModel(*model, plan, BuiltinFormats(), folder.path(), NullLog());
  EXPECT_EQ(ParseFile(written.model).opset_import(0).version(), 8);
  // Older than what is supported at all.
  ModelBuilder b(4, 3);
  b.Input("x", {2}).Output("y");
  b.Node("Reshape", {"x"}, {"y"}, "shape");
  ExpectModelError([&] { LoadModel(b.Save(folder.path())); },
                   {"operator set 4", "7 to 23", "'shape' (Reshape)"});
}

}  // namespace
}  // namespace hif8
