// A model's graph and the graphs nested in it (bodies of If, Loop, Scan), and what a name means
// inside each. Internal to this folder.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

// Says where a value comes from.
struct Definition {
  enum class Kind { kNone, kInput, kInitializer, kNode };
  Kind kind = Kind::kNone;
  int scope = -1;
  int index = -1;  // of the initializer or node in its graph

  bool operator==(const Definition&) const = default;
};

struct Scope {
  onnx::GraphProto* graph = nullptr;
  int parent = -1;
  int owner = -1;  // index of the node in the parent's graph whose attribute this graph is
  std::vector<int> children;
  std::string path;  // "" for the model's graph, else "node/branch", for messages and names
  std::unordered_map<std::string_view, int> nodes;  // value -> node that computes it
  std::unordered_map<std::string_view, int> initializers;
  std::unordered_set<std::string_view> inputs;  // those that are no initializers
};

// Scopes are numbered depth first, so that equal graphs have equal numbers. Names point into the
// messages: make a new one after changing a graph.
class Scopes {
 public:
  explicit Scopes(onnx::GraphProto* graph);

  size_t size() const { return scopes_.size(); }
  const Scope& operator[](int scope) const { return scopes_[static_cast<size_t>(scope)]; }

  // Looks in the scope itself, then outwards.
  Definition Find(int scope, std::string_view name) const;
  const onnx::NodeProto& Node(const Definition& definition) const {
    return (*this)[definition.scope].graph->node(definition.index);
  }
  const onnx::TensorProto& Initializer(const Definition& definition) const {
    return (*this)[definition.scope].graph->initializer(definition.index);
  }
  // The definition that holds the value's constant tensor, or null.
  const onnx::TensorProto* FindConstant(int scope, std::string_view name) const;
  // Scopes that are attributes of a node.
  std::vector<int> Bodies(int scope, int node) const;

 private:
  void Add(onnx::GraphProto* graph, int parent, int owner, const std::string& path);

  std::vector<Scope> scopes_;
};

}  // namespace hif8
