#include "lib/model/onnx/taps.h"

#include "lib/model/onnx/onnx_graphs.h"
#include "lib/model/onnx/runnable.h"

namespace hif8 {

std::vector<std::vector<ActivationReader>> ActivationReaders(const OnnxModel::Impl& model) {
  std::vector<std::vector<ActivationReader>> readers(model.activations.size());
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    const LayerSite& site = model.layer_sites[i];
    const auto add = [&](int activation, int input) {
      if (activation < 0) return;
      readers[static_cast<size_t>(activation)].push_back({static_cast<int>(i), input});
    };
    add(layer.activation, site.activation_input);
    add(layer.second_activation, site.second_input);
  }
  return readers;
}

onnx::NodeProto MakeTap(std::string_view op, int id, std::vector<std::string> inputs,
                        const std::string& output) {
  onnx::NodeProto node =
      MakeNode(std::string(op), std::move(inputs), {output}, std::string(kTapDomain));
  SetAttribute(&node, std::string(kTapIdAttribute), id);
  return node;
}

RunnableGraph BuildObservedGraph(const OnnxModel& model, std::span<const int> activations) {
  const OnnxModel::Impl& impl = model.impl();
  GraphEdit edit(impl.proto);
  const auto readers = ActivationReaders(impl);
  for (const int activation : activations) {
    const ActivationSite& site = impl.activation_sites.at(static_cast<size_t>(activation));
    const std::string observed = edit.NewName(site.tensor + "_observed");
    const auto& places = readers[static_cast<size_t>(activation)];
    for (const ActivationReader& reader : places) {
      const LayerSite& layer = impl.layer_sites[static_cast<size_t>(reader.layer)];
      edit.node(layer.scope, layer.node).set_input(reader.input, observed);
    }
    const LayerSite& first = impl.layer_sites[static_cast<size_t>(places.front().layer)];
    edit.InsertBefore(site.scope, first.node,
                      MakeTap(kObserveOp, activation, {site.tensor}, observed));
  }
  return MakeRunnable(impl, edit.Finish());
}

}  // namespace hif8
