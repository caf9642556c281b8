// Graphs that observe a model while it runs.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "lib/model/graph.h"
#include "lib/model/onnx/onnx_model.h"

namespace hif8 {

// Returns the model with an Observe tap between each of these activations and the layers that read
// it. A tap's id is the activation's index in the model. Throws kModel when the model has inputs
// that no data can be given to.
RunnableGraph BuildObservedGraph(const OnnxModel& model, std::span<const int> activations);

// Returns the original network and the written one, with taps that tell how far they are apart. In
// the original every quantized layer is computed once more from the written file's codes, scales
// and rounding of its input, on the original network's data. The graphs refer to large tensors in
// the files of both, which must stay. Throws kModel when the written model cannot be read.
EvaluationGraphs BuildEvaluationGraphs(const OnnxModel& original,
                                       const std::filesystem::path& written);

// Returns the original network in which those layers (a flag for each of the model's) have the
// weights and the rounding of inputs of the written one. Both models, and their files, must stay.
RunnableGraph BuildPartlyQuantizedGraph(const OnnxModel& original, const OnnxModel& written,
                                        const std::vector<bool>& layers);

// Returns the layer on its own (names: lib/model/layer_graph.h), all fp32, its other operands as
// constants. Nothing for layers without a stored fp32 weight or whose other operands are computed.
std::optional<RunnableGraph> BuildLayerGraph(const OnnxModel& model, int layer);

}  // namespace hif8
