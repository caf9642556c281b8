#include "lib/model/onnx/quantized_operands.h"

#include <algorithm>

#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {
namespace {

constexpr std::string_view kRuntimeDomain = "com.microsoft";
constexpr int kNone = -1;    // no such input
constexpr int kBehind = -2;  // the result is multiplied by the scale
constexpr int kDeepest = 5;  // nodes between a product and that

// One operand of an operator by numbers of inputs.
struct OperandInputs {
  int codes = kNone, scales = kNone, zero_points = kNone;
  std::optional<int64_t> axis = {};  // nothing: one scale for all
};
// An operator that calculates with integers.
struct IntegerOperator {
  std::string_view op;
  OperandInputs first, second;
  int bias = kNone;  // in units of both scales' product
};
constexpr IntegerOperator kOperators[] = {
    {"QLinearConv", {0, 1, 2}, {3, 4, 5, 0}, 8},
    {"QLinearMatMul", {0, 1, 2, -2}, {3, 4, 5, -1}},
    {"QLinearAdd", {0, 1, 2}, {3, 4, 5}},
    {"QLinearMul", {0, 1, 2}, {3, 4, 5}},
    {"QGemm", {0, 1, 2}, {3, 4, 5, 1}, 6},
    {"ConvInteger", {}, {1, kBehind, 3, 0}},
    {"MatMulInteger", {0, kBehind, 2, -2}, {1, kBehind, 3, -1}},
    {"MatMulIntegerToFloat", {0, 2, 4, -2}, {1, 3, 5, -1}},
    {"DynamicQuantizeMatMul", {}, {1, 2, 3, -1}}};

// The constant one of a product's two operands, or "".
std::string ConstantFactor(const Scopes& scopes, int scope, const std::string& product) {
  const Definition made = scopes.Find(scope, product);
  if (made.kind != Definition::Kind::kNode) return "";
  const onnx::NodeProto& node = scopes.Node(made);
  if (!IsStandardOp(node, "Mul") || node.input_size() != 2) return "";
  const bool first = scopes.FindConstant(made.scope, node.input(0)) != nullptr;
  const bool second = scopes.FindConstant(made.scope, node.input(1)) != nullptr;
  return first == second ? "" : node.input(first ? 0 : 1);
}

// The constant that a product of integers is multiplied by, alone or times the scale of the other
// operand: Cast, an integer bias and the other scale may come before it.
std::string ScaleBehind(const Scopes& scopes, const Uses& uses, int scope, std::string value) {
  for (int i = 0; i < kDeepest; ++i) {
    const std::vector<Use>& readers = uses.Of(scope, value);
    if (readers.size() != 1 || readers[0].node < 0) return "";
    const onnx::NodeProto& reader = scopes[readers[0].scope].graph->node(readers[0].node);
    if (IsStandardOp(reader, "Mul")) {
      const std::string& other = InputName(reader, 1 - readers[0].input);
      if (scopes.FindConstant(scope, other) != nullptr) return other;
      if (std::string factor = ConstantFactor(scopes, scope, other); !factor.empty()) return factor;
    } else if (!IsStandardOp(reader, "Cast") && !IsStandardOp(reader, "Add")) {
      return "";
    }
    value = reader.output(0);
  }
  return "";
}

std::vector<QuantizedOperand> OfIntegers(const Scopes& scopes, const Uses& uses, int scope,
                                         const onnx::NodeProto& node, const IntegerOperator& how) {
  std::vector<QuantizedOperand> operands;
  for (const OperandInputs& inputs : {how.first, how.second}) {
    QuantizedOperand operand;
    operand.codes = InputName(node, inputs.codes);
    if (scopes.FindConstant(scope, operand.codes) == nullptr) continue;
    operand.names = {operand.codes};
    operand.scales = inputs.scales == kBehind ? ScaleBehind(scopes, uses, scope, node.output(0))
                                              : InputName(node, inputs.scales);
    operand.zero_points = InputName(node, inputs.zero_points);
    operand.axis = inputs.axis;
    if (how.op == "QGemm" && IntAttribute(node, "transB", 0) != 0) operand.axis = 0;
    operands.push_back(std::move(operand));
  }
  const std::string& bias = InputName(node, how.bias);
  if (!bias.empty()) {
    QuantizedOperand operand;
    operand.names = {bias};
    operand.codes = bias;
    operand.scales = InputName(node, how.second.scales);
    operand.factor = InputName(node, how.first.scales);
    operand.axis = -1;
    operands.push_back(std::move(operand));
  }
  return operands;
}

// Whether a value is nothing but scales of another tensor (NVFP4).
bool IsScale(const Scopes& scopes, const Uses& uses, int scope, const std::string& value) {
  const std::vector<Use>& readers = uses.Of(scope, value);
  return !readers.empty() && std::ranges::all_of(readers, [&](const Use& use) {
    return use.node >= 0 && use.input == 1 &&
           IsLinear(scopes[use.scope].graph->node(use.node), "DequantizeLinear");
  });
}

QuantizedOperand OfDequantize(const Scopes& scopes, int scope, const onnx::NodeProto& node) {
  QuantizedOperand operand;
  operand.names = {InputName(node, 0), node.output(0)};
  operand.codes = InputName(node, 0);
  operand.scales = InputName(node, 1);
  const bool function = !IsLinear(node, "DequantizeLinear");
  (function ? operand.global_scale : operand.zero_points) = InputName(node, 2);
  if (function) return operand;
  operand.axis = IntAttribute(node, "axis", 1);
  operand.block = IntAttribute(node, "block_size", 0);
  const Definition made = scopes.Find(scope, operand.codes);
  if (made.kind != Definition::Kind::kNode) return operand;
  const onnx::NodeProto& maker = scopes.Node(made);
  if (IsStandardOp(maker, "Gather")) {  // rows of a table: it has one scale
    operand.codes = InputName(maker, 0);
    operand.names = {operand.codes};
    operand.axis.reset();
  } else if (IsLinear(maker, "QuantizeLinear")) {
    const onnx::TensorProto* zeros = scopes.FindConstant(made.scope, InputName(maker, 2));
    auto type = static_cast<int>(IntAttribute(maker, "output_dtype", 0));
    if (type == 0) type = zeros != nullptr ? zeros->data_type() : int{onnx::TensorProto::UINT8};
    operand.rounding = {InputName(maker, 1), InputName(maker, 2), type,
                        IntAttribute(maker, "axis", 1), IntAttribute(maker, "block_size", 0)};
    operand.codes = InputName(maker, 0);
    operand.names.insert(operand.names.begin(), operand.codes);
  }
  return operand;
}

}  // namespace

bool IsLinear(const onnx::NodeProto& node, std::string_view op) {
  return node.op_type() == op &&
         (IsStandardDomain(node.domain()) || node.domain() == kRuntimeDomain);
}

bool IsLinearOperator(const onnx::NodeProto& node) {
  return node.op_type().starts_with("QLinear") || node.op_type() == "QGemm";
}

std::vector<QuantizedOperand> OperandsOf(const Scopes& scopes, const Uses& uses, int scope,
                                         const onnx::NodeProto& node) {
  if (node.output_size() == 0) return {};
  if (node.op_type() == "DequantizeLinear") {
    if (IsScale(scopes, uses, scope, node.output(0))) return {};
    return {OfDequantize(scopes, scope, node)};
  }
  const auto* const found = std::ranges::find(kOperators, node.op_type(), &IntegerOperator::op);
  if (found == std::end(kOperators)) return {};
  return OfIntegers(scopes, uses, scope, node, *found);
}

}  // namespace hif8
