#include "lib/model/onnx/unique_names.h"

namespace hif8 {

void UniqueNames::ReserveAll(const onnx::GraphProto& graph) {
  for (const onnx::ValueInfoProto& value : graph.input()) Reserve(value.name());
  for (const onnx::ValueInfoProto& value : graph.output()) Reserve(value.name());
  for (const onnx::ValueInfoProto& value : graph.value_info()) Reserve(value.name());
  for (const onnx::TensorProto& tensor : graph.initializer()) Reserve(tensor.name());
  for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer()) {
    Reserve(tensor.values().name());
  }
  for (const onnx::NodeProto& node : graph.node()) {
    Reserve(node.name());
    for (const std::string& input : node.input()) Reserve(input);
    for (const std::string& output : node.output()) Reserve(output);
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) ReserveAll(attribute.g());
      for (const onnx::GraphProto& body : attribute.graphs()) ReserveAll(body);
    }
  }
}

}  // namespace hif8
