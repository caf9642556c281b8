// Changes to a copy of a model's graphs. Internal to this folder.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/model/onnx/onnx_impl.h"
#include "lib/model/onnx/unique_names.h"

namespace hif8 {

// Scopes and nodes are numbered as in the original until Finish(), whatever was inserted before.
class GraphEdit {
 public:
  explicit GraphEdit(const onnx::ModelProto& original)
      : model_(original), scopes_(model_.mutable_graph()) {
    names_.ReserveAll(model_.graph());
  }

  onnx::ModelProto& model() { return model_; }
  onnx::GraphProto& graph(int scope) { return *scopes_[scope].graph; }
  onnx::NodeProto& node(int scope, int node) { return *graph(scope).mutable_node(node); }
  std::string NewName(const std::string& wanted) { return names_.Make(wanted); }

  void InsertBefore(int scope, int node, onnx::NodeProto added) {
    inserted_[scope].emplace(node, std::move(added));
  }
  // Behind everything that was inserted before the next node so far.
  void InsertAfter(int scope, int node, onnx::NodeProto added) {
    InsertBefore(scope, node + 1, std::move(added));
  }
  void Remove(int scope, int node) { removed_.emplace(scope, node); }
  void RemoveInitializer(int scope, int initializer) {
    removed_initializers_.emplace(scope, initializer);
  }
  onnx::TensorProto* AddInitializer(int scope, onnx::TensorProto tensor) {
    onnx::TensorProto* added = graph(scope).add_initializer();
    *added = std::move(tensor);
    return added;
  }

  // Returns the changed model; this object is used up.
  onnx::ModelProto Finish();

 private:
  onnx::ModelProto model_;
  Scopes scopes_;
  UniqueNames names_;
  std::map<int, std::multimap<int, onnx::NodeProto>> inserted_;  // by scope, then position
  std::set<std::pair<int, int>> removed_;
  std::set<std::pair<int, int>> removed_initializers_;
};

}  // namespace hif8
