// Element types of the values of a graph. Internal to this folder.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "lib/model/onnx/scopes.h"

namespace hif8 {

// Carries on what the model declares by a short table of rules (nearly every operator's result has
// the type of its first input). Needs no shapes and works for operators of any opset.
class ElementTypes {
 public:
  explicit ElementTypes(const Scopes& scopes);

  // Returns an ONNX element type, 0 when unknown or no tensor.
  int Find(int scope, const std::string& name) const;

 private:
  void Visit(const Scopes& scopes, int scope);
  void VisitNode(const Scopes& scopes, int scope, int index);

  const Scopes& scopes_;
  std::vector<std::unordered_map<std::string, int>> types_;  // by scope
};

}  // namespace hif8
