// Graphs that observe a model while it runs.
#pragma once

#include <filesystem>
#include <span>

#include "lib/model/graph.h"
#include "lib/model/onnx/onnx_model.h"

namespace hif8 {

// The model with an Observe tap between each of these activations and the layers that read it. A
// tap's id is the activation's index in the model. Throws kModel when the model has inputs that no
// data can be given to.
RunnableGraph BuildObservedGraph(const OnnxModel& model, std::span<const int> activations);

}  // namespace hif8
