#include "lib/model/onnx/graph_edit.h"

namespace hif8 {

onnx::ModelProto GraphEdit::Finish() {
  // Inner graphs first: they move along with the nodes that hold them.
  for (int scope = static_cast<int>(scopes_.size()); scope-- > 0;) {
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    std::multimap<int, onnx::NodeProto>& inserted = inserted_[scope];
    auto next = inserted.begin();
    onnx::GraphProto& graph = *scopes_[scope].graph;
    for (int i = 0; i <= graph.node_size(); ++i) {
      for (; next != inserted.end() && next->first == i; ++next) {
        *nodes.Add() = std::move(next->second);
      }
      if (i < graph.node_size() && !removed_.contains({scope, i})) {
        *nodes.Add() = std::move(*graph.mutable_node(i));
      }
    }
    graph.mutable_node()->Swap(&nodes);
    google::protobuf::RepeatedPtrField<onnx::TensorProto> initializers;
    for (int i = 0; i < graph.initializer_size(); ++i) {
      if (removed_initializers_.contains({scope, i})) continue;
      *initializers.Add() = std::move(*graph.mutable_initializer(i));
    }
    graph.mutable_initializer()->Swap(&initializers);
  }
  return std::move(model_);
}

}  // namespace hif8
