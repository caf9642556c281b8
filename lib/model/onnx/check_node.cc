#include "lib/model/onnx/check_node.h"

#include <onnx/defs/schema.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "lib/model/onnx/onnx_functions.h"

namespace hif8 {
namespace {

using Attribute = onnx::AttributeProto;

// Attributes that ONNX Runtime or libonnx divides by: a 0 ends the process.
constexpr std::string_view kDivisors[] = {"group", "strides", "dilations", "kernel_shape",
                                          "blocksize"};

void CheckDivisor(const onnx::NodeProto& node, const Attribute& attribute,
                  const std::string& where) {
  if (std::ranges::find(kDivisors, attribute.name()) == std::end(kDivisors)) return;
  const auto wrong = [](int64_t v) { return v < 1 || v > INT32_MAX; };
  const bool bad =
      attribute.has_i() ? wrong(attribute.i()) : std::ranges::any_of(attribute.ints(), wrong);
  if (!bad) return;
  throw GraphError(NodeText(node) + " has an attribute '" + attribute.name() +
                       "' below 1 or above " + std::to_string(INT32_MAX),
                   where);
}

std::string Range(int least, int most) {
  if (most >= INT32_MAX) return std::to_string(least) + " or more";
  if (least == most) return std::to_string(least);
  return std::to_string(least) + " to " + std::to_string(most);
}

void CheckCount(const onnx::NodeProto& node, const std::string& what, int found, int least,
                int most, const std::string& where) {
  if (found >= least && found <= most) return;
  throw GraphError(NodeText(node) + " has " + std::to_string(found) + " " + what + ", expected " +
                       Range(least, most),
                   where);
}

// A written model's calls give all that the function declares; others may leave out the last ones.
void CheckCall(const onnx::NodeProto& node, const NodeContext& context) {
  const std::string_view format = FormatOfDomain(node.domain());
  const bool ours = !format.empty() && !format.starts_with("onnx");
  if (ours &&
      (node.op_type() == kDequantizeFunction || node.op_type() == kQuantizeDequantizeFunction)) {
    const int most = node.op_type() == kDequantizeFunction ? 3 : 2;  // with a global scale
    CheckCount(node, "inputs", node.input_size(), 2, most, context.where);
    CheckCount(node, "outputs", node.output_size(), 1, 1, context.where);
  }
  if (context.called == nullptr) return;
  const int inputs = context.called->input_size(), outputs = context.called->output_size();
  CheckCount(node, "inputs", node.input_size(), ours ? inputs : 0, inputs, context.where);
  CheckCount(node, "outputs", node.output_size(), ours ? outputs : 0, outputs, context.where);
}

// The required inputs must have a value: an empty name leaves one out.
void CheckRequiredInputs(const onnx::NodeProto& node, const onnx::OpSchema& schema,
                         const std::string& where) {
  const auto& parameters = schema.inputs();
  for (int i = 0; i < node.input_size() && i < static_cast<int>(parameters.size()); ++i) {
    const bool needed = parameters[static_cast<size_t>(i)].GetOption() == onnx::OpSchema::Single;
    if (!needed || !node.input(i).empty() || i >= schema.min_input()) continue;
    throw GraphError(NodeText(node) + " leaves out its input " + std::to_string(i) + ", '" +
                         parameters[static_cast<size_t>(i)].GetName() + "', which is required",
                     where);
  }
}

std::string TypeName(int type) {
  return Attribute::AttributeType_IsValid(type)
             ? Attribute::AttributeType_Name(static_cast<Attribute::AttributeType>(type))
             : "type " + std::to_string(type);
}

// Whether the attribute holds what its own type says, and something at all where it has a type
// that has no value by itself.
bool HasValue(const Attribute& attribute) {
  switch (attribute.type()) {
    case Attribute::GRAPH:
      return attribute.has_g();
    case Attribute::TENSOR:
      return attribute.has_t();
    case Attribute::SPARSE_TENSOR:
      return attribute.has_sparse_tensor();
    default:
      return true;
  }
}

void CheckAttributes(const onnx::NodeProto& node, const NodeContext& context) {
  std::set<std::string_view> seen;
  for (const Attribute& attribute : node.attribute()) {
    if (!seen.insert(attribute.name()).second) {
      throw GraphError(NodeText(node) + " has two attributes '" + attribute.name() + "'",
                       context.where);
    }
    if (attribute.ref_attr_name().empty() && !HasValue(attribute)) {
      throw GraphError(NodeText(node) + ": its attribute '" + attribute.name() +
                           "' should hold a " + TypeName(attribute.type()) + " and is empty",
                       context.where);
    }
    if (IsStandardDomain(node.domain())) CheckDivisor(node, attribute, context.where);
  }
}

void CheckSchemaAttributes(const onnx::NodeProto& node, const onnx::OpSchema& schema,
                           const std::string& where) {
  for (const auto& [name, wanted] : schema.attributes()) {
    const Attribute* found = FindAttribute(node, name);
    if (found == nullptr) {
      if (!wanted.required) continue;
      throw GraphError(NodeText(node) + " has no attribute '" + name + "', which is required",
                       where);
    }
    // The oldest exporters wrote no types.
    if (found->type() == wanted.type || found->type() == Attribute::UNDEFINED) continue;
    throw GraphError(NodeText(node) + ": its attribute '" + name + "' is of type " +
                         TypeName(found->type()) + ", expected " + TypeName(wanted.type),
                     where);
  }
}

}  // namespace

Error GraphError(const std::string& message, const std::string& where) {
  return ModelError("invalid graph: " + message, "export the model again, or check it with onnx",
                    where);
}

KnownSchema FindSchema(const onnx::NodeProto& node, int64_t opset) {
  if (!IsStandardDomain(node.domain())) return {};
  static const int newest =
      onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map().at(onnx::ONNX_DOMAIN).second;
  const bool known = opset > 0 && opset <= newest;
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(
      node.op_type(), known ? static_cast<int>(opset) : newest, onnx::ONNX_DOMAIN);
  return {schema, known};
}

void CheckNode(const onnx::NodeProto& node, const NodeContext& context) {
  if (node.op_type().empty()) throw GraphError("a node has no operator type", context.where);
  CheckAttributes(node, context);
  CheckCall(node, context);
  const auto [schema, exact] = FindSchema(node, context.opset);
  if (schema == nullptr) return;
  const int most = exact ? schema->max_input() : INT32_MAX;
  CheckCount(node, "inputs", node.input_size(), schema->min_input(), most, context.where);
  CheckCount(node, "outputs", node.output_size(), schema->min_output(),
             exact ? schema->max_output() : INT32_MAX, context.where);
  CheckRequiredInputs(node, *schema, context.where);
  CheckSchemaAttributes(node, *schema, context.where);
}

}  // namespace hif8
