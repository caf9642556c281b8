// Multiply-adds of layers.
#include <algorithm>

#include "lib/model/onnx/onnx_impl.h"
#include "lib/model/onnx/shapes.h"

namespace hif8 {
namespace {

// Images of that size, sequences of that length: all layers of a model grow alike with it.
constexpr int64_t kOpenExtent = 320;

// Product of the dimensions; 0 when one is unknown.
double Count(const std::optional<Shape>& shape) {
  if (!shape) return 0;
  double count = 1;
  for (const int64_t d : *shape) count *= d < 0 ? 0 : static_cast<double>(d);
  return count;
}

double Last(const std::optional<Shape>& shape, size_t from_end) {
  if (!shape || shape->size() < from_end) return 0;
  const int64_t d = (*shape)[shape->size() - from_end];
  return d < 0 ? 0 : static_cast<double>(d);
}

double LayerMacs(const OnnxModel::Impl& model, size_t layer, const InferredShapes& shapes) {
  const LayerSite& site = model.layer_sites[layer];
  const onnx::NodeProto& node = model.node(site);
  const std::string& op = node.op_type();
  const auto input = [&](int i) { return shapes.Find(InputName(node, i)); };
  if (op == "MatMul" || op == "Gemm") {
    // Every output element sums over the last dimension of the left operand.
    const bool transposed = op == "Gemm" && IntAttribute(node, "transA", 0) != 0;
    return Count(shapes.Find(node.output(0))) * Last(input(0), transposed ? 2 : 1);
  }
  const std::optional<Shape> weight = input(site.weight_input);
  if (!weight || weight->empty() || site.weight_input < 0) return 0;
  const double per_channel =
      Count(weight) / static_cast<double>(std::max<int64_t>((*weight)[0], 1));
  if (op == "Conv") return Count(shapes.Find(node.output(0))) * per_channel;
  if (op == "ConvTranspose") return Count(input(0)) * per_channel;
  if (op == "LSTM" || op == "GRU" || op == "RNN") {
    const std::optional<Shape> x = input(0);  // [steps, batch, inputs]
    return x && x->size() == 3 ? Count(Shape{(*x)[0], (*x)[1]}) * Count(weight) : 0;
  }
  return 0;  // a look-up multiplies nothing
}

}  // namespace

void CountMacs(OnnxModel::Impl* model) {
  if (model->layers.empty()) return;
  OpenDimensions open{kOpenExtent};
  for (const GraphValue& input : model->inputs) {
    if (input.time_first) open.time_first.insert(input.name);
  }
  const InferredShapes shapes(model->proto, open);
  for (size_t i = 0; i < model->layers.size(); ++i) {
    if (model->node(model->layer_sites[i]).output_size() == 0) continue;
    model->layers[i].macs = LayerMacs(*model, i, shapes);
  }
}

}  // namespace hif8
