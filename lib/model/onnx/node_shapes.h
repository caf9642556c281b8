// The shapes of one node's results. Internal to this folder.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace hif8 {

// Holds what is known of the values that nodes read.
struct KnownValues {
  // Tensors only; elem_type is always set, to FLOAT where the model does not say.
  std::unordered_map<std::string, onnx::TypeProto> types;
  std::unordered_map<std::string, const onnx::TensorProto*> constants;
  // Integers that follow from shapes ("the input's height, halved"), as if they were dimensions.
  std::unordered_map<std::string, onnx::TensorShapeProto> integers;
};

// Adds the shapes of the node's results to `values`, as far as they follow from those of its
// inputs, and the integers that it computes from shapes. libonnx is asked only about operators and
// ranks that its rules were written for: with others it reads beyond the end of what it is given.
// The node must have passed CheckNode().
void AddNodeShapes(const onnx::NodeProto& node, int64_t opset, KnownValues* values);

}  // namespace hif8
