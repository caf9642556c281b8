#include "lib/model/onnx/types.h"

#include <algorithm>
#include <map>

namespace hif8 {
namespace {

using onnx::TensorProto;

// Operators whose (first) result has one type whatever they read.
const std::map<std::string_view, int>& FixedTypes() {
  static const std::map<std::string_view, int> kTypes = {
      {"Shape", TensorProto::INT64},
      {"Size", TensorProto::INT64},
      {"ArgMax", TensorProto::INT64},
      {"ArgMin", TensorProto::INT64},
      {"NonZero", TensorProto::INT64},
      {"NonMaxSuppression", TensorProto::INT64},
      {"Equal", TensorProto::BOOL},
      {"Greater", TensorProto::BOOL},
      {"GreaterOrEqual", TensorProto::BOOL},
      {"Less", TensorProto::BOOL},
      {"LessOrEqual", TensorProto::BOOL},
      {"And", TensorProto::BOOL},
      {"Or", TensorProto::BOOL},
      {"Xor", TensorProto::BOOL},
      {"Not", TensorProto::BOOL},
      {"IsNaN", TensorProto::BOOL},
      {"IsInf", TensorProto::BOOL},
      {"ConvInteger", TensorProto::INT32},
      {"MatMulInteger", TensorProto::INT32},
      {"DynamicQuantizeLinear", TensorProto::UINT8}};
  return kTypes;
}

// Operators whose result has the type of an input other than the first.
int TypeInput(const onnx::NodeProto& node) {
  const std::string& op = node.op_type();
  if (op == "Where" || op == "CastLike" || op == "DequantizeLinear") return 1;
  if (op == "OneHot") return 2;
  return 0;
}

int FirstType(const onnx::NodeProto& node, const ElementTypes& types, int scope) {
  const std::string& op = node.op_type();
  if (const auto it = FixedTypes().find(op); it != FixedTypes().end()) return it->second;
  if (op == "Cast") return static_cast<int>(IntAttribute(node, "to", 0));
  if (op == "Constant" || op == "ConstantOfShape") {
    const onnx::AttributeProto* value = FindAttribute(node, "value");
    if (value != nullptr) return value->t().data_type();
    const bool ints =
        FindAttribute(node, "value_int") != nullptr || FindAttribute(node, "value_ints") != nullptr;
    return ints ? TensorProto::INT64 : TensorProto::FLOAT;
  }
  const int dtype = static_cast<int>(IntAttribute(node, "dtype", 0));
  if (dtype != 0) return dtype;
  if (op == "RandomNormal" || op == "RandomUniform") return TensorProto::FLOAT;
  if (op == "QuantizeLinear") {
    return node.input_size() > 2 ? types.Find(scope, node.input(2)) : int{TensorProto::UINT8};
  }
  return types.Find(scope, InputName(node, TypeInput(node)));
}

}  // namespace

ElementTypes::ElementTypes(const Scopes& scopes) : scopes_(scopes), types_(scopes.size()) {
  Visit(scopes, 0);
}

int ElementTypes::Find(int scope, const std::string& name) const {
  for (; scope >= 0; scope = scopes_[scope].parent) {
    const auto& types = types_[static_cast<size_t>(scope)];
    if (const auto it = types.find(name); it != types.end()) return it->second;
  }
  return 0;
}

void ElementTypes::Visit(const Scopes& scopes, int scope) {
  auto& types = types_[static_cast<size_t>(scope)];
  const onnx::GraphProto& graph = *scopes[scope].graph;
  for (const auto* list : {&graph.value_info(), &graph.output(), &graph.input()}) {
    for (const onnx::ValueInfoProto& value : *list) {
      const int type = value.type().tensor_type().elem_type();
      if (type != 0) types[value.name()] = type;
    }
  }
  for (const TensorProto& tensor : graph.initializer()) types[tensor.name()] = tensor.data_type();
  for (int i = 0; i < graph.node_size(); ++i) VisitNode(scopes, scope, i);
}

void ElementTypes::VisitNode(const Scopes& scopes, int scope, int index) {
  const onnx::NodeProto& node = scopes[scope].graph->node(index);
  auto& types = types_[static_cast<size_t>(scope)];
  const std::vector<int> bodies = scopes.Bodies(scope, index);
  for (const int body : bodies) Visit(scopes, body);
  if (!bodies.empty()) {
    // The last results of a body are the node's results; Loop's body has its condition before them.
    const onnx::GraphProto& graph = *scopes[bodies[0]].graph;
    const int skip = node.op_type() == "Loop" ? 1 : 0;
    for (int i = 0; i < node.output_size() && i + skip < graph.output_size(); ++i) {
      const int type = Find(bodies[0], graph.output(i + skip).name());
      if (type != 0) types.emplace(node.output(i), type);
    }
    return;
  }
  if (!IsStandardDomain(node.domain())) return;
  const int type = FirstType(node, *this, scope);
  for (int i = 0; i < node.output_size(); ++i) {
    const std::string& op = node.op_type();
    int own = type;
    if (i == 1 && (op == "TopK" || op == "MaxPool")) own = TensorProto::INT64;
    if (i >= 1 && op == "Unique") own = TensorProto::INT64;
    if (i == 1 && op == "DynamicQuantizeLinear") own = TensorProto::FLOAT;
    if (i == 1 && op == "Dropout") own = TensorProto::BOOL;
    if (own != 0) types.emplace(node.output(i), own);
  }
}

}  // namespace hif8
