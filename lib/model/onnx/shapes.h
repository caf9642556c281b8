// Shapes of the values of a graph, as far as they can be told without data. Internal to this
// folder.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

// What libonnx infers. It may know less than the model would allow (operators newer than the
// library, say); it never fails.
class InferredShapes {
 public:
  // `open_extent`: what stands for dimensions of inputs that the model leaves open, the first one
  // of an input aside, which is one sample; 0: they stay unknown.
  explicit InferredShapes(const onnx::ModelProto& model, int64_t open_extent = 0);

  // Dimensions, -1 where unknown; nothing when not even their number is known. Names are looked up
  // regardless of the graph that they stand in: nested graphs seldom reuse one.
  std::optional<Shape> Find(const std::string& name) const;

 private:
  void Collect(const onnx::GraphProto& graph);

  std::unordered_map<std::string, Shape> shapes_;
};

}  // namespace hif8
