// One layer on its own.
#include <algorithm>
#include <set>
#include <string>

#include "lib/model/layer_graph.h"
#include "lib/model/onnx/onnx_graphs.h"
#include "lib/model/onnx/onnx_impl.h"
#include "lib/model/onnx/runnable.h"

namespace hif8 {
namespace {

class LayerGraphBuilder {
 public:
  LayerGraphBuilder(const OnnxModel::Impl& model, int layer)
      : model_(model),
        layer_(model.layers[static_cast<size_t>(layer)]),
        site_(model.layer_sites[static_cast<size_t>(layer)]) {}

  std::optional<RunnableGraph> Build() {
    if (layer_.weight < 0 || layer_.activation < 0 || site_.activation_input < 0 ||
        site_.elem_type != onnx::TensorProto::FLOAT || !layer_.unsupported.empty()) {
      return std::nullopt;
    }
    onnx::NodeProto node = model_.node(site_);
    for (int i = 0; i < node.input_size(); ++i) {
      if (i == site_.activation_input) {
        node.set_input(i, kLayerInput);
      } else if (!node.input(i).empty()) {
        const std::optional<std::string> name = Constant(site_.scope, node.input(i));
        if (!name) return std::nullopt;
        node.set_input(i, *name);
      }
    }
    while (node.output_size() > 1) node.mutable_output()->RemoveLast();
    node.set_output(0, kLayerResult);
    *graph_.add_node() = std::move(node);
    AddValue(kLayerInput, nullptr, graph_.add_input());
    if (!reads_weight_) return std::nullopt;
    const Weight& weight = model_.weights[static_cast<size_t>(layer_.weight)];
    AddValue(kLayerWeight, &weight.shape, graph_.add_input());
    AddValue(kLayerResult, nullptr, graph_.add_output());
    return Pack();
  }

 private:
  static void AddValue(const char* name, const Shape* shape, onnx::ValueInfoProto* value) {
    value->set_name(name);
    auto* type = value->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    if (shape == nullptr) return;
    for (const int64_t extent : *shape) type->mutable_shape()->add_dim()->set_dim_value(extent);
  }

  // Copies what makes a constant; the layer's stored weight becomes an input.
  std::optional<std::string> Constant(int scope, const std::string& name) {
    const Definition at = model_.scopes->Find(scope, name);
    if (at.kind == Definition::Kind::kInitializer) {
      if (at == model_.weight_sites[static_cast<size_t>(layer_.weight)].source) {
        reads_weight_ = true;
        return model_.scopes->Initializer(at).data_type() == onnx::TensorProto::FLOAT
                   ? std::optional<std::string>(kLayerWeight)
                   : std::nullopt;
      }
      const std::string copy = "c_" + name;
      if (copied_.insert(copy).second) {
        onnx::TensorProto tensor = model_.scopes->Initializer(at);
        MakeReferenceAbsolute(model_.files, &tensor);
        tensor.set_name(copy);
        *graph_.add_initializer() = std::move(tensor);
      }
      return copy;
    }
    if (at.kind != Definition::Kind::kNode) return std::nullopt;
    const std::string copy = "c_" + name;
    if (!copied_.insert(copy).second) return copy;
    onnx::NodeProto node = model_.scopes->Node(at);
    if (node.output_size() != 1) return std::nullopt;
    for (std::string& input : *node.mutable_input()) {
      if (input.empty()) continue;
      const std::optional<std::string> made = Constant(at.scope, input);
      if (!made) return std::nullopt;
      input = *made;
    }
    node.set_output(0, copy);
    *graph_.add_node() = std::move(node);
    return copy;
  }

  RunnableGraph Pack() {
    onnx::ModelProto model;
    model.set_ir_version(
        std::max<int64_t>(model_.proto.ir_version(), 4));  // constants are no inputs
    *model.mutable_opset_import() = model_.proto.opset_import();
    *model.mutable_functions() = model_.proto.functions();
    graph_.set_name("layer");
    *model.mutable_graph() = std::move(graph_);
    return PackGraph(model_.files, std::move(model));
  }

  const OnnxModel::Impl& model_;
  const Layer& layer_;
  const LayerSite& site_;
  onnx::GraphProto graph_;
  std::set<std::string> copied_;
  bool reads_weight_ = false;
};

}  // namespace

std::optional<RunnableGraph> BuildLayerGraph(const OnnxModel& model, int layer) {
  return LayerGraphBuilder(model.impl(), layer).Build();
}

}  // namespace hif8
