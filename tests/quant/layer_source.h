// Gives the Linear layers of a model alone, and nothing else.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/model/layer_graph.h"
#include "lib/model/model.h"
#include "lib/model/onnx/graph_builder.h"
#include "lib/runtime/activation_source.h"

namespace hif8 {

class LayerSource : public ActivationSource {
 public:
  explicit LayerSource(const Model& model) : model_(model) {}
  std::vector<TensorStats> Collect(std::span<const int>) override { return {}; }
  uint64_t samples() const override { return 0; }
  bool synthetic() const override { return false; }
  Measurement Measure(const std::filesystem::path&, const std::map<int, QuantizedActivation>&,
                      const LayerSet&) override {
    return {};
  }
  std::optional<RunnableGraph> LayerGraph(int layer) const override {
    if (!alone) return std::nullopt;
    const int weight = model_.layers()[static_cast<size_t>(layer)].weight;
    const Shape& shape = model_.weights()[static_cast<size_t>(weight)].shape;
    GraphBuilder graph;
    const std::string x = graph.Input(kLayerInput, DType::kF32, {-1, shape[1]});
    const std::string w = graph.Input(kLayerWeight, DType::kF32, shape);
    graph.Output(graph.Node("Gemm", {x, w}, {{"transB", int64_t{1}}}), kLayerResult, DType::kF32,
                 {-1, shape[0]});
    return graph.Finish();
  }
  bool alone = true;  // else no layer can be had

 private:
  const Model& model_;
};

// The values must outlive the view.
inline TensorView View(std::span<const float> values, const Shape& shape) {
  return {DType::kF32, shape, reinterpret_cast<const std::byte*>(values.data())};
}

}  // namespace hif8
