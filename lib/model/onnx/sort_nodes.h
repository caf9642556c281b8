// The order of nodes. Internal to this folder.
#pragma once

#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

// Puts every node behind those whose results it reads, as ONNX wants it, in nested graphs too. Some
// converters append nodes at the end; ONNX Runtime takes any order. One that is right stays, and so
// do nodes that read each other in a circle.
void SortNodes(onnx::GraphProto* graph);

// Returns whether nodes of one graph can be put in an order: none reads, not even in a graph nested
// in it, what depends on its own result.
bool CanBeSorted(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes);

}  // namespace hif8
