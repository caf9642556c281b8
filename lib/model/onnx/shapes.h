// Shapes of the values of a graph, as far as they can be told without data. Internal to this
// folder.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

// Stands for dimensions of the model's inputs that it leaves open, when the shapes of a run of a
// typical size are wanted.
struct OpenDimensions {
  int64_t extent = 0;  // of all but the sample's dimension, which is 1; 0: they stay unknown
  std::unordered_set<std::string> time_first = {};  // inputs whose first dimension is no sample
};

// Shapes that follow from the model's inputs and constants. It may know less than the model would
// allow (an operator that is newer than libonnx, say); it never fails.
class InferredShapes {
 public:
  // The model must have passed CheckModel().
  explicit InferredShapes(const onnx::ModelProto& model, const OpenDimensions& open = {});

  // Dimensions, -1 where unknown; nothing when not even their number is known. Names are looked up
  // regardless of the graph that they stand in: nested graphs seldom reuse one.
  std::optional<Shape> Find(const std::string& name) const;

 private:
  std::unordered_map<std::string, Shape> shapes_;
};

}  // namespace hif8
