#include "lib/model/safetensors/linear_graph.h"

#include <string>
#include <vector>

#include "lib/model/layer_graph.h"
#include "lib/model/onnx/graph_builder.h"
#include "lib/model/safetensors/checkpoint.h"

namespace hif8 {

std::optional<RunnableGraph> LinearGraph(const Checkpoint& checkpoint, int index) {
  const Layer& layer = checkpoint.layers().at(static_cast<size_t>(index));
  if (layer.op != "Linear" || layer.weight < 0) return std::nullopt;
  const Shape& shape = checkpoint.weights()[static_cast<size_t>(layer.weight)].shape;
  if (shape.size() != 2) return std::nullopt;
  GraphBuilder graph;
  std::vector<std::string> inputs = {graph.Input(kLayerInput, DType::kF32, {-1, shape[1]}),
                                     graph.Input(kLayerWeight, DType::kF32, shape)};
  if (const CheckpointTensor* bias = checkpoint.Find(layer.name + ".bias")) {
    std::vector<float> values(static_cast<size_t>(shape[0]));
    checkpoint.ReadRows(*bias, 0, shape[0], values.data());
    inputs.push_back(graph.Floats({shape[0]}, values));
  }
  graph.Output(graph.Node("Gemm", inputs, {{"transB", int64_t{1}}}), kLayerResult, DType::kF32,
               {-1, shape[0]});
  return graph.Finish();
}

}  // namespace hif8
