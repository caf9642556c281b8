#include "lib/model/onnx/scopes.h"

#include <algorithm>

#include "lib/core/error.h"

namespace hif8 {
namespace {

Error GraphError(const std::string& message, const Scope& scope) {
  return ModelError("invalid graph: " + message, "export the model again, or check it with onnx",
                    scope.path);
}

// Zeros here end the process inside ONNX Runtime: it divides by them.
void CheckDivisors(const onnx::NodeProto& node, const Scope& scope) {
  if (!IsStandardDomain(node.domain())) return;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    const std::string& name = attribute.name();
    if (name != "group" && name != "strides" && name != "dilations" && name != "kernel_shape") {
      continue;
    }
    const auto& values = attribute.ints();
    const bool bad =
        attribute.type() == onnx::AttributeProto::INT
            ? attribute.i() < 1
            : std::any_of(values.begin(), values.end(), [](int64_t v) { return v < 1; });
    if (bad) {
      throw GraphError(NodeText(node) + " has an attribute '" + name + "' below 1", scope);
    }
  }
}

}  // namespace

Scopes::Scopes(onnx::GraphProto* graph) { Add(graph, -1, -1, {}); }

void Scopes::Add(onnx::GraphProto* graph, int parent, int owner, std::string path) {
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

void Scopes::Check() const {
  for (int i = 0; i < static_cast<int>(scopes_.size()); ++i) {
    const Scope& scope = (*this)[i];
    std::unordered_set<std::string_view> defined(scope.inputs);
    for (const onnx::TensorProto& initializer : scope.graph->initializer()) {
      if (!defined.insert(initializer.name()).second) {
        throw GraphError("two tensors are named '" + initializer.name() + "'", scope);
      }
    }
    for (const onnx::SparseTensorProto& sparse : scope.graph->sparse_initializer()) {
      defined.insert(sparse.values().name());
    }
    for (const onnx::NodeProto& node : scope.graph->node()) {
      for (const std::string& output : node.output()) {
        if (!output.empty() && !defined.insert(output).second) {
          throw GraphError(
              "value '" + output + "' is computed twice, the second time by " + NodeText(node),
              scope);
        }
      }
    }
    const auto known = [&](const std::string& name) {
      return name.empty() || defined.contains(name) ||
             Find(scope.parent, name).kind != Definition::Kind::kNone;
    };
    for (const onnx::NodeProto& node : scope.graph->node()) {
      if (node.op_type().empty()) throw GraphError("a node has no operator type", scope);
      CheckDivisors(node, scope);
      for (const std::string& input : node.input()) {
        if (!known(input)) {
          throw GraphError(NodeText(node) + " reads '" + input + "', which nothing defines", scope);
        }
      }
    }
    for (const onnx::ValueInfoProto& output : scope.graph->output()) {
      if (!known(output.name())) {
        throw GraphError("output '" + output.name() + "' is not defined", scope);
      }
    }
  }
}

}  // namespace hif8
