#include "lib/model/onnx/unique_names.h"

namespace hif8 {
namespace {

template <typename Visit>
void ForEachNode(onnx::GraphProto* graph, const Visit& visit) {
  for (onnx::NodeProto& node : *graph->mutable_node()) {
    visit(&node);
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) ForEachNode(attribute.mutable_g(), visit);
      for (onnx::GraphProto& body : *attribute.mutable_graphs()) ForEachNode(&body, visit);
    }
  }
}

}  // namespace

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

void MakeNodeNamesUnique(onnx::GraphProto* graph) {
  UniqueNames names;
  ForEachNode(graph, [&](onnx::NodeProto* node) { names.Reserve(node->name()); });
  std::unordered_set<std::string> seen;
  ForEachNode(graph, [&](onnx::NodeProto* node) {
    if (node->name().empty() || seen.insert(node->name()).second) return;
    node->set_name(names.Make(node->name()));
  });
}

}  // namespace hif8
