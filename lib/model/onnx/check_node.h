// Whether a node is what its operator says. Internal to this folder.
#pragma once

#include <cstdint>
#include <string>

#include "lib/core/error.h"
#include "lib/model/onnx/onnx_proto.h"

namespace onnx {
class OpSchema;
}  // namespace onnx

namespace hif8 {

// Returns an error about a graph at a place in the model ("" for its own graph).
Error GraphError(const std::string& message, const std::string& where);

// Holds what decides whether a node is right.
struct NodeContext {
  int64_t opset = 0;                            // version of the standard operators; 0: the newest
  const onnx::FunctionProto* called = nullptr;  // what the node calls, if it is a function
  std::string where;                            // for messages
};

// Throws kModel when the node has no operator type, when it has more or fewer inputs, outputs or
// attributes than its operator or function allows, when an attribute is there twice or has another
// type, or when the engine would divide by an attribute that is 0.
void CheckNode(const onnx::NodeProto& node, const NodeContext& context);

// The schema that libonnx has of a standard operator in a version of the operator set, null when it
// has none. `exact`: false when the set is newer than libonnx, so that the operator may have got
// further inputs and attributes since.
struct KnownSchema {
  const onnx::OpSchema* schema = nullptr;
  bool exact = false;
};
KnownSchema FindSchema(const onnx::NodeProto& node, int64_t opset);

}  // namespace hif8
