#include "tests/runtime/test_graph.h"

#include <cstring>

namespace hif8 {
namespace {

int OnnxType(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return onnx::TensorProto::FLOAT16;
    case DType::kBF16:
      return onnx::TensorProto::BFLOAT16;
    case DType::kF64:
      return onnx::TensorProto::DOUBLE;
    case DType::kI64:
      return onnx::TensorProto::INT64;
    case DType::kI32:
      return onnx::TensorProto::INT32;
    case DType::kU8:
      return onnx::TensorProto::UINT8;
    case DType::kBool:
      return onnx::TensorProto::BOOL;
    default:
      return onnx::TensorProto::FLOAT;
  }
}

GraphValue Declare(onnx::ValueInfoProto* info, const std::string& name, const Shape& shape,
                   DType dtype, const std::vector<std::string>& dim_names) {
  GraphValue value{name, dtype, true, shape, {}};
  info->set_name(name);
  auto* type = info->mutable_type()->mutable_tensor_type();
  type->set_elem_type(OnnxType(dtype));
  type->mutable_shape();
  for (size_t i = 0; i < shape.size(); ++i) {
    auto* dim = type->mutable_shape()->add_dim();
    std::string dim_name;
    if (shape[i] >= 0) {
      dim->set_dim_value(shape[i]);
    } else {
      dim_name = i < dim_names.size() ? dim_names[i] : name + "_d" + std::to_string(i);
      if (!dim_name.empty()) dim->set_dim_param(dim_name);
    }
    value.dim_names.push_back(dim_name);
  }
  return value;
}

}  // namespace

TestGraph::TestGraph(int opset) {
  model_.set_ir_version(8);
  auto* import = model_.add_opset_import();
  import->set_domain("");
  import->set_version(opset);
  auto* taps = model_.add_opset_import();
  taps->set_domain(std::string(kTapDomain));
  taps->set_version(1);
  graph().set_name("test");
}

TestGraph& TestGraph::Input(const std::string& name, const Shape& shape, DType dtype,
                            const std::vector<std::string>& dim_names) {
  result_.inputs.push_back(Declare(graph().add_input(), name, shape, dtype, dim_names));
  return *this;
}

TestGraph& TestGraph::Output(const std::string& name, const Shape& shape, DType dtype) {
  result_.outputs.push_back(Declare(graph().add_output(), name, shape, dtype, {}));
  return *this;
}

TestGraph& TestGraph::Weight(const std::string& name, const Shape& shape,
                             const std::vector<float>& values) {
  auto* tensor = graph().add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t d : shape) tensor->add_dims(d);
  for (const float v : values) tensor->add_float_data(v);
  return *this;
}

TestGraph& TestGraph::Ints(const std::string& name, const Shape& shape,
                           const std::vector<int64_t>& values) {
  auto* tensor = graph().add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::INT64);
  for (const int64_t d : shape) tensor->add_dims(d);
  for (const int64_t v : values) tensor->add_int64_data(v);
  return *this;
}

onnx::NodeProto* TestGraph::Node(const std::string& op, const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& outputs,
                                 const std::string& domain) {
  auto* node = graph().add_node();
  node->set_op_type(op);
  node->set_domain(domain);
  for (const std::string& name : inputs) node->add_input(name);
  for (const std::string& name : outputs) node->add_output(name);
  return node;
}

TestGraph& TestGraph::Tap(std::string_view op, int id, const std::vector<std::string>& inputs,
                          const std::string& output) {
  AddTap(&graph(), op, id, inputs, output);
  return *this;
}

RunnableGraph TestGraph::Build() const {
  RunnableGraph result = result_;
  model_.SerializeToString(&result.model);
  return result;
}

void AddTap(onnx::GraphProto* graph, std::string_view op, int id,
            const std::vector<std::string>& inputs, const std::string& output) {
  auto* node = graph->add_node();
  node->set_op_type(std::string(op));
  node->set_domain(std::string(kTapDomain));
  for (const std::string& name : inputs) node->add_input(name);
  node->add_output(output);
  SetInt(node, std::string(kTapIdAttribute), id);
}

void SetInt(onnx::NodeProto* node, const std::string& name, int64_t value) {
  auto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

Tensor FloatTensor(const Shape& shape, const std::vector<float>& values) {
  std::byte* data = nullptr;
  Tensor tensor = Tensor::Allocate(DType::kF32, shape, &data);
  if (!values.empty()) std::memcpy(data, values.data(), values.size() * sizeof(float));
  return tensor;
}

Tensor IntTensor(const Shape& shape, const std::vector<int64_t>& values) {
  std::byte* data = nullptr;
  Tensor tensor = Tensor::Allocate(DType::kI64, shape, &data);
  if (!values.empty()) std::memcpy(data, values.data(), values.size() * sizeof(int64_t));
  return tensor;
}

std::vector<float> Floats(const TensorView& view) {
  std::vector<float> buffer;
  const auto span = AsFloats(view, &buffer);
  return {span.begin(), span.end()};
}

}  // namespace hif8
