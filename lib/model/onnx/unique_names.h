// Names that collide with nothing. Internal to this folder.
#pragma once

#include <string>
#include <unordered_set>
#include <utility>

#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

class UniqueNames {
 public:
  void Reserve(const std::string& name) { taken_.insert(name); }
  // `wanted`, or `wanted` with the first free number behind it; reserved from now on.
  std::string Make(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 2; !taken_.insert(name).second; ++i) name = wanted + "_" + std::to_string(i);
    return name;
  }

  // Reserves every value and node name of a graph and the graphs inside it.
  void ReserveAll(const onnx::GraphProto& graph);

 private:
  std::unordered_set<std::string> taken_;
};

// Gives every named node of the graph and the graphs inside it a name of its own (the first one
// keeps it): ONNX Runtime refuses two of the same name.
void MakeNodeNamesUnique(onnx::GraphProto* graph);

}  // namespace hif8
