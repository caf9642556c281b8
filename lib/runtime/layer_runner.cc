#include "lib/runtime/layer_runner.h"

#include <optional>
#include <string>

#include "lib/model/layer_graph.h"
#include "lib/runtime/session.h"

namespace hif8 {
namespace {

Tensor View(std::span<const float> values, const Shape& shape) {
  Tensor tensor;
  tensor.view = {DType::kF32, shape, reinterpret_cast<const std::byte*>(values.data())};
  return tensor;
}

}  // namespace

struct LayerRunner::Impl {
  std::unique_ptr<Session> session;
};

LayerRunner::LayerRunner() : impl_(std::make_unique<Impl>()) {}
LayerRunner::~LayerRunner() = default;

std::unique_ptr<LayerRunner> LayerRunner::Make(const ActivationSource& source, int layer) {
  const std::optional<RunnableGraph> graph = source.LayerGraph(layer);
  if (!graph) return nullptr;
  std::unique_ptr<LayerRunner> runner(new LayerRunner);
  runner->impl_->session = std::make_unique<Session>(*graph, SessionOptions{});
  return runner;
}

std::vector<float> LayerRunner::Run(std::span<const float> x, const Shape& x_shape,
                                    std::span<const float> weight, const Shape& weight_shape) {
  const NamedTensors inputs = {{kLayerInput, View(x, x_shape)},
                               {kLayerWeight, View(weight, weight_shape)}};
  const std::vector<Tensor> outputs = impl_->session->Run(inputs);
  std::vector<float> buffer;
  const std::span<const float> values = AsFloats(outputs.front().view, &buffer);
  return {values.begin(), values.end()};
}

}  // namespace hif8
