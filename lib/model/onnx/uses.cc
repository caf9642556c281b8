#include "lib/model/onnx/uses.h"

namespace hif8 {

Uses::Uses(const Scopes& scopes) : scopes_(scopes) {
  for (int scope = 0; scope < static_cast<int>(scopes.size()); ++scope) {
    const auto add = [&](const std::string& name, const Use& use) {
      if (name.empty()) return;
      const Definition definition = scopes.Find(scope, name);
      if (definition.kind == Definition::Kind::kNone) return;
      uses_[{definition.scope, name}].push_back(use);
    };
    const onnx::GraphProto& graph = *scopes[scope].graph;
    for (int node = 0; node < graph.node_size(); ++node) {
      for (int i = 0; i < graph.node(node).input_size(); ++i) {
        add(graph.node(node).input(i), {scope, node, i});
      }
    }
    for (const onnx::ValueInfoProto& output : graph.output()) add(output.name(), {scope, -1, -1});
  }
}

const std::vector<Use>& Uses::Of(int scope, const std::string& name) const {
  static const std::vector<Use> kNone;
  const Definition definition = scopes_.Find(scope, name);
  const auto it = uses_.find({definition.scope, name});
  return it != uses_.end() ? it->second : kNone;
}

}  // namespace hif8
