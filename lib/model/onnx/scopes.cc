#include "lib/model/onnx/scopes.h"

namespace hif8 {

Scopes::Scopes(onnx::GraphProto* graph) { Add(graph, -1, -1, {}); }

void Scopes::Add(onnx::GraphProto* graph, int parent, int owner, const std::string& path) {
  const int id = static_cast<int>(scopes_.size());
  Scope scope;
  scope.graph = graph;
  scope.parent = parent;
  scope.owner = owner;
  scope.path = path;
  for (int i = 0; i < graph->initializer_size(); ++i) {
    scope.initializers.emplace(graph->initializer(i).name(), i);
  }
  for (const onnx::ValueInfoProto& input : graph->input()) {
    if (!scope.initializers.contains(input.name())) scope.inputs.insert(input.name());
  }
  for (int i = 0; i < graph->node_size(); ++i) {
    for (const std::string& output : graph->node(i).output()) {
      if (!output.empty()) scope.nodes.emplace(output, i);
    }
  }
  scopes_.push_back(std::move(scope));
  if (parent >= 0) scopes_[static_cast<size_t>(parent)].children.push_back(id);
  for (int i = 0; i < graph->node_size(); ++i) {
    onnx::NodeProto* node = graph->mutable_node(i);
    const std::string name = node->name().empty() && node->output_size() > 0
                                 ? node->op_type() + "_" + node->output(0)
                                 : node->name();
    for (onnx::AttributeProto& attribute : *node->mutable_attribute()) {
      const std::string inner =
          (path.empty() ? std::string() : path + "/") + name + "/" + attribute.name();
      if (attribute.has_g()) Add(attribute.mutable_g(), id, i, inner);
      for (onnx::GraphProto& body : *attribute.mutable_graphs()) Add(&body, id, i, inner);
    }
  }
}

Definition Scopes::Find(int scope, std::string_view name) const {
  for (; scope >= 0; scope = (*this)[scope].parent) {
    const Scope& here = (*this)[scope];
    if (const auto it = here.nodes.find(name); it != here.nodes.end()) {
      return {Definition::Kind::kNode, scope, it->second};
    }
    if (const auto it = here.initializers.find(name); it != here.initializers.end()) {
      return {Definition::Kind::kInitializer, scope, it->second};
    }
    if (here.inputs.contains(name)) return {Definition::Kind::kInput, scope, -1};
  }
  return {};
}

const onnx::TensorProto* Scopes::FindConstant(int scope, std::string_view name) const {
  const Definition definition = Find(scope, name);
  return definition.kind == Definition::Kind::kInitializer ? &Initializer(definition) : nullptr;
}

std::vector<int> Scopes::Bodies(int scope, int node) const {
  std::vector<int> bodies;
  for (const int child : (*this)[scope].children) {
    if ((*this)[child].owner == node) bodies.push_back(child);
  }
  return bodies;
}

}  // namespace hif8
