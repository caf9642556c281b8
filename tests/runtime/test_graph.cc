#include "tests/runtime/test_graph.h"

#include <cstring>

namespace hif8 {
namespace {

GraphValue Declare(onnx::ValueInfoProto* info, const std::string& name, const Shape& shape,
                   DType dtype, const std::vector<std::string>& dim_names) {
  GraphValue value{name, dtype, true, shape, {}};
  info->set_name(name);
  auto* type = info->mutable_type()->mutable_tensor_type();
  type->set_elem_type(FromDType(dtype));
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
  *graph().add_initializer() = MakeTensor(name, shape, values);
  return *this;
}

TestGraph& TestGraph::Ints(const std::string& name, const Shape& shape,
                           const std::vector<int64_t>& values) {
  *graph().add_initializer() = MakeTensor(name, shape, values);
  return *this;
}

onnx::NodeProto* TestGraph::Node(const std::string& op, const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& outputs,
                                 const std::string& domain) {
  onnx::NodeProto* node = graph().add_node();
  *node = MakeNode(op, inputs, outputs, domain);
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
  *graph->add_node() = MakeNode(std::string(op), inputs, {output}, std::string(kTapDomain));
  SetAttribute(graph->mutable_node(graph->node_size() - 1), std::string(kTapIdAttribute), id);
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
