#include "lib/model/onnx/shapes.h"

#include <onnx/shape_inference/implementation.h>

#include <exception>
#include <string>
#include <utility>

namespace hif8 {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

// libonnx ends the process at a Shape whose input has no type that it knows, as behind an operator
// of another domain. The result of a Cast always has one.
void PutCastsBeforeShapes(Nodes* nodes) {
  Nodes result;
  for (onnx::NodeProto& node : *nodes) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) PutCastsBeforeShapes(attribute.mutable_g()->mutable_node());
      for (onnx::GraphProto& body : *attribute.mutable_graphs()) {
        PutCastsBeforeShapes(body.mutable_node());
      }
    }
    if (IsStandardOp(node, "Shape") && node.input_size() > 0 && node.output_size() > 0) {
      const std::string typed = node.output(0) + "/typed_input";
      *result.Add() = MakeNode("Cast", {node.input(0)}, {typed});
      SetAttribute(result.Mutable(result.size() - 1), "to", onnx::TensorProto::FLOAT);
      node.set_input(0, typed);
    }
    *result.Add() = std::move(node);
  }
  nodes->Swap(&result);
}

}  // namespace

InferredShapes::InferredShapes(const onnx::ModelProto& model, int64_t open_extent) {
  onnx::ModelProto copy;
  copy.set_ir_version(model.ir_version());
  *copy.mutable_opset_import() = model.opset_import();
  *copy.mutable_functions() = model.functions();
  *copy.mutable_graph() = model.graph();
  for (onnx::ValueInfoProto& input : *copy.mutable_graph()->mutable_input()) {
    if (open_extent == 0 || !input.type().tensor_type().has_shape()) continue;
    auto* shape = input.mutable_type()->mutable_tensor_type()->mutable_shape();
    for (int i = 0; i < shape->dim_size(); ++i) {
      if (!shape->dim(i).has_dim_value()) {
        shape->mutable_dim(i)->set_dim_value(i == 0 ? 1 : open_extent);
      }
    }
  }
  if (open_extent != 0) {
    // Declared shapes would contradict the ones that follow from the inputs.
    copy.mutable_graph()->clear_value_info();
    for (onnx::ValueInfoProto& output : *copy.mutable_graph()->mutable_output()) {
      output.mutable_type()->mutable_tensor_type()->clear_shape();
    }
  }
  PutCastsBeforeShapes(copy.mutable_graph()->mutable_node());
  for (onnx::FunctionProto& function : *copy.mutable_functions()) {
    PutCastsBeforeShapes(function.mutable_node());
  }
  try {
    const onnx::ShapeInferenceOptions options(false, 0, true);
    onnx::shape_inference::InferShapes(copy, onnx::OpSchemaRegistry::Instance(), options);
  } catch (const std::exception&) {
    // What was found until then is still right.
  }
  Collect(copy.graph());
}

void InferredShapes::Collect(const onnx::GraphProto& graph) {
  for (const auto* list : {&graph.input(), &graph.value_info(), &graph.output()}) {
    for (const onnx::ValueInfoProto& value : *list) {
      if (!value.type().tensor_type().has_shape()) continue;
      Shape shape;
      for (const auto& dim : value.type().tensor_type().shape().dim()) {
        shape.push_back(dim.has_dim_value() && dim.dim_value() >= 0 ? dim.dim_value() : -1);
      }
      shapes_[value.name()] = std::move(shape);
    }
  }
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    shapes_[tensor.name()] = Shape(tensor.dims().begin(), tensor.dims().end());
  }
  for (const onnx::NodeProto& node : graph.node()) {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) Collect(attribute.g());
      for (const onnx::GraphProto& body : attribute.graphs()) Collect(body);
    }
  }
}

std::optional<Shape> InferredShapes::Find(const std::string& name) const {
  const auto it = shapes_.find(name);
  if (it == shapes_.end()) return std::nullopt;
  return it->second;
}

}  // namespace hif8
