#include "lib/model/onnx/node_shapes.h"

#include <onnx/defs/schema.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "lib/model/onnx/check_node.h"
#include "lib/model/onnx/shape_context.h"

namespace hif8 {
namespace {

using Operators = std::set<std::string_view>;

// Operators whose first result has the shape of their first input.
const Operators& KeepShape() {
  static const Operators kOps = {"Abs",
                                 "Acos",
                                 "Acosh",
                                 "Asin",
                                 "Asinh",
                                 "Atan",
                                 "Atanh",
                                 "BatchNormalization",
                                 "Bernoulli",
                                 "BitwiseNot",
                                 "Cast",
                                 "CastLike",
                                 "Ceil",
                                 "Celu",
                                 "Clip",
                                 "Cos",
                                 "Cosh",
                                 "CumSum",
                                 "DequantizeLinear",
                                 "Dropout",
                                 "DynamicQuantizeLinear",
                                 "Elu",
                                 "Erf",
                                 "Exp",
                                 "EyeLike",
                                 "Floor",
                                 "Gelu",
                                 "GroupNormalization",
                                 "HardSigmoid",
                                 "HardSwish",
                                 "Hardmax",
                                 "Identity",
                                 "InstanceNormalization",
                                 "IsInf",
                                 "IsNaN",
                                 "LRN",
                                 "LayerNormalization",
                                 "LeakyRelu",
                                 "Log",
                                 "LogSoftmax",
                                 "LpNormalization",
                                 "MeanVarianceNormalization",
                                 "Mish",
                                 "Neg",
                                 "Not",
                                 "PRelu",
                                 "QuantizeLinear",
                                 "RMSNormalization",
                                 "Reciprocal",
                                 "Relu",
                                 "Round",
                                 "Scatter",
                                 "ScatterElements",
                                 "ScatterND",
                                 "Selu",
                                 "Shrink",
                                 "Sigmoid",
                                 "Sign",
                                 "Sin",
                                 "Sinh",
                                 "Softmax",
                                 "Softplus",
                                 "Softsign",
                                 "Sqrt",
                                 "Swish",
                                 "Tan",
                                 "Tanh",
                                 "ThresholdedRelu",
                                 "Trilu"};
  return kOps;
}

// Operators whose inputs are broadcast against each other.
const Operators& Broadcast() {
  static const Operators kOps = {
      "Add",        "And",         "BitShift", "BitwiseAnd", "BitwiseOr",
      "BitwiseXor", "Div",         "Equal",    "Greater",    "GreaterOrEqual",
      "Less",       "LessOrEqual", "Max",      "Mean",       "Min",
      "Mod",        "Mul",         "Or",       "Pow",        "Sub",
      "Sum",        "Where",       "Xor"};
  return kOps;
}

// Operators that libonnx is asked about. Those of `any_rank` take scalars as first input.
struct Asked {
  Operators any_rank = {"Constant", "ConstantOfShape", "Expand", "Flatten",  "Range",
                        "Reshape",  "Shape",           "Size",   "Unsqueeze"};
  Operators others = {"ArgMax",
                      "ArgMin",
                      "AveragePool",
                      "Compress",
                      "Concat",
                      "Conv",
                      "ConvInteger",
                      "ConvTranspose",
                      "DepthToSpace",
                      "Gather",
                      "GatherElements",
                      "GatherND",
                      "Gemm",
                      "GlobalAveragePool",
                      "GlobalLpPool",
                      "GlobalMaxPool",
                      "GRU",
                      "LpPool",
                      "LSTM",
                      "MatMul",
                      "MatMulInteger",
                      "MaxPool",
                      "OneHot",
                      "Pad",
                      "QLinearConv",
                      "QLinearMatMul",
                      "ReduceL1",
                      "ReduceL2",
                      "ReduceLogSum",
                      "ReduceLogSumExp",
                      "ReduceMax",
                      "ReduceMean",
                      "ReduceMin",
                      "ReduceProd",
                      "ReduceSum",
                      "ReduceSumSquare",
                      "Resize",
                      "RNN",
                      "Slice",
                      "SpaceToDepth",
                      "Split",
                      "Squeeze",
                      "Tile",
                      "TopK",
                      "Transpose",
                      "Upsample"};
};
const Asked& AskedOperators() {
  static const Asked kOps;
  return kOps;
}

bool Inside(int64_t axis, int64_t rank) { return axis >= -rank && axis < rank; }

// libonnx's rules for windows that slide over an image: as many numbers as it has dimensions.
bool WindowFits(const NodeInputs& inputs, int rank) {
  const int spatial = rank - 2;
  for (const std::string_view name :
       {"kernel_shape", "strides", "dilations", "output_padding", "output_shape", "pads"}) {
    const onnx::AttributeProto* attribute = FindAttribute(inputs.node(), name);
    const int wanted = name == "pads" ? 2 * spatial : spatial;
    if (attribute != nullptr && attribute->ints_size() != wanted) return false;
  }
  const std::string& op = inputs.node().op_type();
  const bool weighted = op.find("Conv") != std::string::npos;
  const onnx::TensorShapeProto* weight =
      weighted ? inputs.Dimensions(op == "QLinearConv" ? 3 : 1) : nullptr;
  return spatial >= 0 && (!weighted || (weight != nullptr && weight->dim_size() == rank));
}

bool AxesFit(const NodeInputs& inputs, int rank) {
  const std::string& op = inputs.node().op_type();
  const onnx::AttributeProto* axis = FindAttribute(inputs.node(), "axis");
  // Some operators put an axis behind the last one.
  const int one_more = op == "OneHot" || op == "Flatten" ? 1 : 0;
  if (axis != nullptr && !Inside(axis->i(), rank + one_more)) return false;
  std::vector<int64_t> axes = IntsAttribute(inputs.node(), "axes");
  const bool as_input = op == "Squeeze" || op == "Unsqueeze" || op == "ReduceSum";
  if (as_input && inputs.Type(1) != nullptr) {
    const auto given = inputs.Integers(1);
    if (!given) return false;
    axes = *given;
  }
  const int64_t result = op == "Unsqueeze" ? rank + static_cast<int64_t>(axes.size()) : rank;
  std::set<int64_t> different;
  for (const int64_t one : axes) {
    if (!Inside(one, result) || !different.insert(one < 0 ? one + result : one).second) {
      return false;
    }
  }
  const std::vector<int64_t> perm = IntsAttribute(inputs.node(), "perm");
  const std::set<int64_t> order(perm.begin(), perm.end());
  const auto size = static_cast<int64_t>(perm.size());
  return perm.empty() || (size == rank && static_cast<int64_t>(order.size()) == size &&
                          *order.begin() == 0 && *order.rbegin() == size - 1);
}

// Whether all that libonnx's rule for the node takes for granted is so.
bool RuleFits(const NodeInputs& inputs, const KnownSchema& known) {
  const std::string& op = inputs.node().op_type();
  if (static_cast<int>(inputs.size()) > known.schema->max_input()) return false;
  if (inputs.node().output_size() > known.schema->max_output()) return false;
  const bool any_rank = AskedOperators().any_rank.contains(op);
  const onnx::TensorShapeProto* first = inputs.size() > 0 ? inputs.Dimensions(0) : nullptr;
  if (first == nullptr) return any_rank && op != "Unsqueeze" && op != "Flatten";
  const int rank = first->dim_size();
  if (rank == 0 && !any_rank) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    // No axes and no dimensions are fine; no depth and no limits are not.
    const onnx::TensorProto* constant = inputs.Constant(i);
    if (constant != nullptr && i > 0 && (op == "OneHot" || op == "Range" || op == "TopK") &&
        ElementCount(TensorShape(*constant)) == 0) {
      return false;
    }
  }
  const bool window = op.ends_with("Pool") && !op.starts_with("Global");
  if ((window || op.find("Conv") != std::string::npos) && !WindowFits(inputs, rank)) return false;
  return AxesFit(inputs, rank);
}

// Whether libonnx may compute integers: it takes for granted that lists are not empty, that indices
// lie inside and that steps lead somewhere.
bool IntegersFit(const NodeInputs& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const onnx::TensorShapeProto* computed = inputs.Computed(i);
    const auto integers = inputs.Integers(i);
    if (computed != nullptr ? computed->dim_size() == 0 : integers && integers->empty()) {
      return false;
    }
  }
  const std::string& op = inputs.node().op_type();
  if (op == "Gather") {
    const onnx::TensorShapeProto* list = inputs.Computed(0);
    const auto indices = inputs.Integers(1);
    const auto stored = inputs.Integers(0);
    if (!indices || (list == nullptr && !stored)) return false;
    const auto size =
        list != nullptr ? int64_t{list->dim_size()} : static_cast<int64_t>(stored->size());
    return std::ranges::all_of(*indices, [&](int64_t i) { return Inside(i, size); });
  }
  if (op == "Slice" && inputs.Type(4) != nullptr) {
    const auto steps = inputs.Integers(4);
    return steps && !std::ranges::count(*steps, 0);
  }
  return true;
}

void SetShape(const onnx::NodeProto& node, int index, const onnx::TypeProto& type,
              KnownValues* values) {
  const std::string& name = node.output(index);
  if (name.empty() || !type.has_tensor_type()) return;
  onnx::TypeProto& known = values->types[name];
  if (!type.tensor_type().has_shape() && known.tensor_type().has_shape()) return;
  // What the model declares may say more than what follows from the inputs.
  const onnx::TensorShapeProto declared = known.tensor_type().shape();
  known = type;
  auto* tensor = known.mutable_tensor_type();
  if (tensor->elem_type() == 0) tensor->set_elem_type(onnx::TensorProto::FLOAT);
  if (declared.dim_size() != tensor->shape().dim_size()) return;
  for (int i = 0; i < declared.dim_size(); ++i) {
    auto* dim = tensor->mutable_shape()->mutable_dim(i);
    const bool known_here = dim->has_dim_value() && dim->dim_value() >= 0;
    if (!known_here && declared.dim(i).has_dim_value()) *dim = declared.dim(i);
  }
}

void AddBroadcast(const NodeInputs& inputs, KnownValues* values) {
  std::vector<onnx::TensorShapeProto> shapes;
  int rank = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const onnx::TensorShapeProto* shape = inputs.Dimensions(i);
    if (shape == nullptr) return;
    shapes.push_back(*shape);
    rank = std::max(rank, shape->dim_size());
  }
  onnx::TypeProto result;
  auto* dims = result.mutable_tensor_type()->mutable_shape();
  for (int i = 0; i < rank; ++i) {
    int64_t size = 1;
    bool known = true;
    for (const onnx::TensorShapeProto& shape : shapes) {
      const int d = i - rank + shape.dim_size();
      if (d < 0) continue;
      if (!shape.dim(d).has_dim_value()) {
        known = false;
      } else if (shape.dim(d).dim_value() != 1) {
        size = shape.dim(d).dim_value();
      }
    }
    auto* dim = dims->add_dim();
    if (known || size != 1) dim->set_dim_value(size);
  }
  SetShape(inputs.node(), 0, result, values);
}

void Ask(const NodeInputs& inputs, int64_t opset, KnownValues* values) {
  const KnownSchema known = FindSchema(inputs.node(), opset);
  if (known.schema == nullptr || !RuleFits(inputs, known)) return;
  ShapeContext context(inputs);
  try {
    known.schema->GetTypeAndShapeInferenceFunction()(context);
  } catch (const std::exception&) {
    return;  // the engine will say what is wrong
  }
  for (int i = 0; i < inputs.node().output_size(); ++i) {
    SetShape(inputs.node(), i, context.outputs()[static_cast<size_t>(i)], values);
  }
}

void AddIntegers(const NodeInputs& inputs, int64_t opset, KnownValues* values) {
  static const Operators kOps = {"Add",  "Cast",  "Concat",  "Gather",    "Mul", "Shape",
                                 "Size", "Slice", "Squeeze", "Unsqueeze", "Sub"};
  if (!kOps.contains(inputs.node().op_type()) || !IntegersFit(inputs)) return;
  const KnownSchema known = FindSchema(inputs.node(), opset);
  if (known.schema == nullptr || !known.schema->has_data_propagation_function()) return;
  std::vector<onnx::TypeProto> outputs;
  for (const std::string& output : inputs.node().output()) {
    const auto type = values->types.find(output);
    outputs.push_back(type == values->types.end() ? onnx::TypeProto() : type->second);
  }
  IntegerContext context(inputs, outputs, values);
  try {
    known.schema->GetDataPropagationFunction()(context);
  } catch (const std::exception&) {
    // They stay unknown.
  }
}

}  // namespace

void AddNodeShapes(const onnx::NodeProto& node, int64_t opset, KnownValues* values) {
  const NodeInputs inputs(node, *values);
  const std::string& op = node.op_type();
  if (node.output_size() == 0) return;
  if (op == "Constant") {
    if (const onnx::AttributeProto* value = FindAttribute(node, "value")) {
      values->constants[node.output(0)] = &value->t();
    }
  }
  // Until set 6 the first operand alone decided.
  const bool keeps = KeepShape().contains(op) || (Broadcast().contains(op) && opset < 7);
  if (keeps && node.input_size() > 0) {
    SetShape(node, 0, *inputs.Type(0), values);
  } else if (Broadcast().contains(op)) {
    AddBroadcast(inputs, values);
  } else if (AskedOperators().any_rank.contains(op) || AskedOperators().others.contains(op)) {
    Ask(inputs, opset, values);
  }
  AddIntegers(inputs, opset, values);
}

}  // namespace hif8
