// Where a graph can be quantized.
#include <map>
#include <unordered_set>

#include "lib/model/onnx/conv_window.h"
#include "lib/model/onnx/onnx_impl.h"
#include "lib/model/onnx/types.h"
#include "lib/model/onnx/unique_names.h"

namespace hif8 {
namespace {

// The shape of a weight operand and the axes along which each index makes outputs of its own.
ScaleAxes MatMulAxes(const Shape& shape, bool left) {
  ScaleAxes axes = ScaleAxes::None(shape);
  if (shape.size() < 2) return axes;                                    // a vector makes one output
  for (size_t i = 0; i + 2 < shape.size(); ++i) axes.scaled[i] = true;  // each matrix of a batch
  axes.scaled[shape.size() - (left ? 2 : 1)] = true;
  return axes;
}

ScaleAxes ConvTransposeAxes(const Shape& shape, int64_t groups) {
  if (groups <= 1 || shape[0] % groups != 0) {
    ScaleAxes axes = ScaleAxes::None(shape);
    axes.scaled[1] = true;
    return axes;
  }
  // [in, out / groups, ...]: output channel (g, m) reads the g-th part of the input channels.
  ScaleAxes axes;
  axes.dims = {groups, shape[0] / groups};
  axes.dims.insert(axes.dims.end(), shape.begin() + 1, shape.end());
  axes.scaled.assign(axes.dims.size(), false);
  axes.scaled[0] = axes.scaled[2] = true;
  return axes;
}

ScaleAxes OneAxis(const Shape& shape, size_t axis) {
  ScaleAxes axes = ScaleAxes::None(shape);
  axes.scaled[axis] = true;
  return axes;
}

// The dimension of an activation that a layer sums over, and its elements, -1 where not known.
struct InputAxis {
  int axis = -1;
  int64_t inputs = -1;
};

// Of the other operand of a MatMul whose constant one has this shape.
InputAxis MatMulInput(const Shape& shape, bool left) {
  if (shape.empty()) return {};
  const size_t rank = shape.size();
  if (left) return {-2, shape[rank - 1]};
  return {-1, rank == 1 ? shape[0] : shape[rank - 2]};
}

// Operators of ONNX Runtime that attention is made of; their constants are tables of angles and
// masks, no weights.
bool IsAttention(const std::string& op) {
  return op.ends_with("MultiHeadAttention") || op == "GroupQueryAttention" ||
         op == "SparseAttention" || op == "PagedAttention" || op == "RotaryEmbedding" ||
         op == "GemmaRotaryEmbedding";
}

bool IsFloatType(int elem_type) {
  DType dtype;
  return ToDType(elem_type, &dtype) && IsFloat(dtype);
}

class LayerFinder {
 public:
  explicit LayerFinder(OnnxModel::Impl* model)
      : model_(*model), scopes_(*model->scopes), types_(scopes_) {
    for (int i = 0; i < static_cast<int>(scopes_.size()); ++i) {
      for (const onnx::NodeProto& node : scopes_[i].graph->node())
        layer_names_.Reserve(node.name());
    }
  }

  void Run() {
    for (int i = 0; i < static_cast<int>(scopes_.size()); ++i) {
      for (int n = 0; n < scopes_[i].graph->node_size(); ++n) Visit(i, n);
    }
    KeepTiedWeights();
  }

 private:
  using Kind = ConstantOperand::Kind;

  struct Place {
    int scope;
    int index;
    const onnx::NodeProto& node;
  };

  void Visit(int scope, int index) {
    const onnx::NodeProto& node = scopes_[scope].graph->node(index);
    const std::string& op = node.op_type();
    const Place place{scope, index, node};
    if (const auto problem = model_.function_problems.find({node.domain(), op});
        problem != model_.function_problems.end()) {
      AddUnsupported(place, "its layers are inside of a function " + problem->second +
                                ", which stays as it is");
    }
    if (!IsStandardDomain(node.domain()) && op != "MatMulNBits") {
      // What ONNX Runtime puts in the place of standard operators when it saves an optimized model.
      if (node.domain() == "com.microsoft" && !IsAttention(op) && HasMatrix(place)) {
        AddUnsupported(place, "weights of " + op + " (com.microsoft) are not quantized; give the " +
                                  "model as it was before ONNX Runtime optimized it");
      }
      return;
    }
    if (op == "MatMul") {
      AddMatMul(place);
    } else if (op == "Gemm") {
      AddGemm(place);
    } else if (op == "Conv" || op == "ConvTranspose") {
      AddConv(place);
    } else if (op == "Gather") {
      AddGather(place);
    } else if (op == "LSTM" || op == "GRU" || op == "RNN") {
      AddRecurrent(place, 1, "/W");
      AddRecurrent(place, 2, "/R");
    } else if (op == "QLinearMatMul" || op == "QLinearConv" || op == "MatMulInteger" ||
               op == "ConvInteger" || op == "MatMulNBits") {
      AddUnsupported(place, "it is already quantized (" + op + ")");
    } else if (op == "Einsum" && HasMatrix(place)) {
      AddUnsupported(place, "products of Einsum are not quantized");
    }
  }

  // Whether there may be a layer's weight among the inputs.
  bool HasMatrix(const Place& place) const {
    for (int i = 0; i < place.node.input_size(); ++i) {
      if (InputName(place.node, i).empty()) continue;
      const ConstantOperand operand = Trace(place, i);
      if (operand.kind == Kind::kChain && operand.shape.size() >= 2 &&
          IsFloatType(operand.elem_type)) {
        return true;
      }
    }
    return false;
  }

  void AddMatMul(const Place& place) {
    const std::string &a = InputName(place.node, 0), &b = InputName(place.node, 1);
    const ConstantOperand right = Trace(place, 1);
    if (right.kind != Kind::kVariable) {
      AddWeighted(place, right, 1, 0, MatMulAxes(right.shape, false),
                  MatMulInput(right.shape, false));
      return;
    }
    const ConstantOperand left = Trace(place, 0);
    if (left.kind != Kind::kVariable) {
      AddWeighted(place, left, 0, 1, MatMulAxes(left.shape, true), MatMulInput(left.shape, true));
      return;
    }
    const int type_a = types_.Find(place.scope, a), type_b = types_.Find(place.scope, b);
    const int type = type_a != 0 ? type_a : type_b;
    if (type == 0) {
      AddUnsupported(place, "the element type of its inputs is not known");
      return;
    }
    if (!IsFloatType(type)) return;
    LayerSite site;
    site.scope = place.scope;
    site.node = place.index;
    site.activation_input = 0;
    site.second_input = 1;
    site.elem_type = type;
    Layer layer = NewLayer(place, "");
    layer.activation = AddActivation(place.scope, a, type, {-1, -1});
    layer.kind = LayerKind::kProduct;
    layer.second_activation = AddActivation(place.scope, b, type, {-2, -1});
    layer.optional = true;
    layer.option = "attention";
    Push(std::move(layer), std::move(site));
  }

  void AddGemm(const Place& place) {
    for (const int weight : {1, 0}) {
      const ConstantOperand operand = Trace(place, weight);
      if (operand.kind == Kind::kVariable) continue;
      const bool transposed = IntAttribute(place.node, weight == 1 ? "transB" : "transA", 0) != 0;
      // B is [K, N], transposed [N, K]; A is [M, K], transposed [K, M].
      const size_t axis = (weight == 1) == transposed ? 0 : 1;
      const bool other = IntAttribute(place.node, weight == 1 ? "transA" : "transB", 0) != 0;
      const bool matrix = operand.shape.size() == 2;
      AddWeighted(place, operand, weight, 1 - weight,
                  matrix ? OneAxis(operand.shape, axis) : ScaleAxes::None(operand.shape),
                  {(weight == 1) == other ? -2 : -1, matrix ? operand.shape[1 - axis] : -1});
      return;
    }
    AddVariable(place);
  }

  void AddConv(const Place& place) {
    const ConstantOperand operand = Trace(place, 1);
    if (operand.kind == Kind::kVariable) {
      AddVariable(place);
      return;
    }
    const size_t rank = operand.shape.size();
    if (operand.kind == Kind::kChain && (rank < 3 || rank > 5)) {
      AddUnsupported(place, "its weight has " + std::to_string(rank) +
                                " dimensions, only 1 to 3 spatial ones are supported");
      return;
    }
    ScaleAxes axes = ScaleAxes::None(operand.shape);
    if (operand.kind == Kind::kChain) {
      axes = place.node.op_type() == "Conv"
                 ? OneAxis(operand.shape, 0)
                 : ConvTransposeAxes(operand.shape, IntAttribute(place.node, "group", 1));
    }
    int64_t channels = -1;
    if (operand.kind == Kind::kChain) {
      const bool plain = place.node.op_type() == "Conv";
      channels = plain ? operand.shape[1] * IntAttribute(place.node, "group", 1) : operand.shape[0];
    }
    const size_t known = model_.layers.size();
    AddWeighted(place, operand, 1, 0, axes, {1, channels});
    if (model_.layers.size() == known || operand.kind != Kind::kChain) return;
    Layer& layer = model_.layers.back();
    // The stored kernel must be the operand itself.
    if (place.node.op_type() == "Conv" && layer.weight >= 0 && operand.steps.empty()) {
      layer.window = WindowOf(place.node, operand.shape);
    }
  }

  void AddGather(const Place& place) {
    const ConstantOperand table = Trace(place, 0);
    if (table.kind != Kind::kChain || !IsFloatType(table.elem_type)) return;
    if (table.shape.size() < 2 || Trace(place, 1).kind != Kind::kVariable) return;
    int64_t axis = IntAttribute(place.node, "axis", 0);
    if (axis < 0) axis += static_cast<int64_t>(table.shape.size());
    if (axis < 0 || axis >= static_cast<int64_t>(table.shape.size())) return;
    AddWeighted(place, table, 0, -1, OneAxis(table.shape, static_cast<size_t>(axis)), {}, "",
                "embeddings");
  }

  void AddRecurrent(const Place& place, int weight, const std::string& suffix) {
    const ConstantOperand operand = Trace(place, weight);
    if (operand.kind == Kind::kVariable) {
      AddUnsupported(place, "its weight is not a constant", suffix);
      return;
    }
    ScaleAxes axes = ScaleAxes::None(operand.shape);  // [directions, gates * hidden, inputs]
    if (operand.shape.size() == 3) axes.scaled[0] = axes.scaled[1] = true;
    AddWeighted(place, operand, weight, -1, axes, {}, suffix);
  }

  ConstantOperand Trace(const Place& place, int input) const {
    return TraceConstant(scopes_, model_.files, place.scope, InputName(place.node, input));
  }

  void AddWeighted(const Place& place, const ConstantOperand& operand, int weight_input,
                   int activation_input, const ScaleAxes& axes, InputAxis input_axis,
                   const std::string& suffix = "", const std::string& option = "") {
    if (operand.kind == Kind::kComputed) {
      AddUnsupported(place, operand.reason, suffix);
      model_.layer_sites.back().evaluable = operand.evaluable;
      return;
    }
    if (!IsFloatType(operand.elem_type)) return;  // a product of integers
    const onnx::TensorProto& stored = scopes_.Initializer(operand.source);
    if (!IsFloatType(stored.data_type())) {
      AddUnsupported(place, "its weight is stored as " + OnnxTypeName(stored.data_type()), suffix);
      return;
    }
    if (ElementCount(operand.shape) == 0) {
      AddUnsupported(place, "its weight is empty", suffix);
      return;
    }
    const std::string& input = InputName(place.node, activation_input);
    if (activation_input >= 0 && Trace(place, activation_input).kind != Kind::kVariable) {
      AddUnsupported(place, "both its operands are constant", suffix);
      return;
    }
    LayerSite site;
    site.scope = place.scope;
    site.node = place.index;
    site.weight_input = weight_input;
    site.activation_input = activation_input;
    site.steps = operand.steps;
    site.elem_type = operand.elem_type;
    Layer layer = NewLayer(place, suffix);
    layer.weight = AddWeight(operand, axes);
    if (activation_input >= 0) {
      layer.activation = AddActivation(place.scope, input, operand.elem_type, input_axis);
    }
    layer.optional = !option.empty();
    layer.option = option;
    Push(std::move(layer), std::move(site));
  }

  void AddVariable(const Place& place) { AddUnsupported(place, "its weight is not a constant"); }

  void AddUnsupported(const Place& place, const std::string& reason,
                      const std::string& suffix = "") {
    Layer layer = NewLayer(place, suffix);
    layer.unsupported = reason;
    LayerSite site;
    site.scope = place.scope;
    site.node = place.index;
    Push(std::move(layer), std::move(site));
  }

  Layer NewLayer(const Place& place, const std::string& suffix) {
    const onnx::NodeProto& node = place.node;
    std::string name = node.name();
    if (name.empty()) {
      name = node.op_type();
      if (node.output_size() > 0) name += "_" + node.output(0);
    }
    name += suffix;
    Layer layer;
    layer.op = node.op_type();
    // A node's own name is unique; a made-up one must not be another node's.
    layer.name = name == node.name() ? name : layer_names_.Make(name);
    return layer;
  }

  void Push(Layer layer, LayerSite site) {
    model_.layers.push_back(std::move(layer));
    model_.layer_sites.push_back(std::move(site));
  }

  int AddWeight(const ConstantOperand& operand, const ScaleAxes& axes) {
    const onnx::TensorProto& stored = scopes_.Initializer(operand.source);
    ChannelLayout layout = ChannelLayout::PerTensor(ElementCount(operand.shape));
    std::string note;
    const auto back = MapBack(operand, axes);
    const auto mapped = back ? LayoutOf(*back) : std::nullopt;
    if (mapped) {
      layout = *mapped;
    } else {
      note = "its output channels cannot be traced to the stored tensor: one scale for all";
    }
    if (operand.shape.size() < 2) note = "a vector has one output channel: one scale for all";
    const auto key = std::pair(operand.source.scope, operand.source.index);
    if (const auto it = weight_index_.find(key); it != weight_index_.end()) {
      MergeLayout(&model_.weights[static_cast<size_t>(it->second)], layout);
      return it->second;
    }
    Weight weight;
    weight.name = weight_names_.Make(NameIn(operand.source.scope, stored.name(), weight_tensors_));
    ToDType(stored.data_type(), &weight.dtype);
    weight.shape = TensorShape(stored);
    weight.channels = layout;
    weight.note = note;
    const int index = static_cast<int>(model_.weights.size());
    model_.weights.push_back(std::move(weight));
    model_.weight_sites.push_back({operand.source});
    weight_index_[key] = index;
    return index;
  }

  static void MergeLayout(Weight* weight, const ChannelLayout& layout) {
    const ChannelLayout& first = weight->channels;
    if (first.batch == layout.batch && first.outer == layout.outer &&
        first.channels == layout.channels && first.inner == layout.inner) {
      return;
    }
    weight->channels = ChannelLayout::PerTensor(weight->size());
    weight->note = "layers that share it have different output channels: one scale for all";
  }

  int AddActivation(int scope, const std::string& tensor, int elem_type, InputAxis axis) {
    const auto [it, added] = activation_index_.emplace(std::pair(scope, tensor),
                                                       static_cast<int>(model_.activations.size()));
    if (!added) {
      Activation& known = model_.activations[static_cast<size_t>(it->second)];
      known.mixed_axes |= known.input_axis != axis.axis;
      if (known.inputs < 0) known.inputs = axis.inputs;
      return it->second;
    }
    Activation activation;
    activation.input_axis = axis.axis;
    activation.inputs = axis.inputs;
    activation.name = activation_names_.Make(NameIn(scope, tensor, activation_tensors_));
    model_.activations.push_back(std::move(activation));
    model_.activation_sites.push_back({scope, tensor, elem_type});
    return it->second;
  }

  // The tensor's own name the first time it is seen, else with its scope before it.
  std::string NameIn(int scope, const std::string& tensor,
                     std::unordered_set<std::string>& seen) const {
    if (seen.insert(tensor).second || scope == 0) return tensor;
    return scopes_[scope].path + "/" + tensor;
  }

  // An embedding table that is also an output layer's weight stays as it is unless asked for.
  void KeepTiedWeights() {
    std::unordered_set<int> tables;
    for (const Layer& layer : model_.layers) {
      if (layer.option == "embeddings") tables.insert(layer.weight);
    }
    for (Layer& layer : model_.layers) {
      if (!tables.contains(layer.weight) || layer.weight < 0) continue;
      layer.optional = true;
      layer.option = "embeddings";
    }
  }

  OnnxModel::Impl& model_;
  const Scopes& scopes_;
  ElementTypes types_;
  std::unordered_set<std::string> weight_tensors_, activation_tensors_;
  UniqueNames layer_names_, weight_names_, activation_names_;
  std::map<std::pair<int, int>, int> weight_index_;
  std::map<std::pair<int, std::string>, int> activation_index_;
};

}  // namespace

void FindLayers(OnnxModel::Impl* model) { LayerFinder(model).Run(); }

}  // namespace hif8
