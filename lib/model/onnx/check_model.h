// The gate that every ONNX graph passes before anything else looks at it. Internal to this folder.
#pragma once

#include "lib/model/onnx/external_data.h"
#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

// Throws kModel unless the model is one that the rest of this folder and libonnx may walk without
// looking twice: in the model's graph, in every graph nested in a node and in every function,
// * each name is defined once and each value that is read is defined; nodes form no circle, and
//   functions neither call each other in a circle nor more than 100 deep;
// * nodes of standard operators have as many inputs and outputs as the operator takes, its required
//   attributes, and each attribute once and of its type (as far as libonnx knows the operator: of
//   later operator sets only what never changes); calls of functions fit what the function
//   declares;
// * every tensor has as many values as its shape says, inline, external or sparse, and neither a
//   tensor's size nor that of an input of the model overflows.
// `files`: where external data lies.
void CheckModel(const onnx::ModelProto& model, const DataFiles& files);

}  // namespace hif8
