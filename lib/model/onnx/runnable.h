// From a changed model to something that the engine runs. Internal to this folder.
#pragma once

#include "lib/model/graph.h"
#include "lib/model/onnx/onnx_impl.h"

namespace hif8 {

// Makes the tensor's reference independent of the model that it comes from: an absolute path.
void MakeReferenceAbsolute(const DataFiles& files, onnx::TensorProto* tensor);

// `model` is `original` with changes; external references are the original's or absolute.
// bf16 is computed in fp32, rounded where the model converts to bf16. Throws kModel when an input
// cannot be fed or the graph is too large.
RunnableGraph MakeRunnable(const OnnxModel::Impl& original, onnx::ModelProto model);

// Packs a graph without inputs or declared outputs, which is of `files`' model.
RunnableGraph PackGraph(const DataFiles& files, onnx::ModelProto model);

// Rewrites a model so that bf16 tensors become fp32 ones.
void ComputeBf16InFloat(onnx::ModelProto* model);

}  // namespace hif8
