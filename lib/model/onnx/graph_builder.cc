#include "lib/model/onnx/graph_builder.h"

#include <onnx/onnx_pb.h>

#include <set>
#include <utility>

#include "lib/core/error.h"

namespace hif8 {
namespace {

onnx::TensorProto::DataType TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return onnx::TensorProto::FLOAT;
    case DType::kI64:
      return onnx::TensorProto::INT64;
    default:
      throw BugError("graphs are built of F32 and I64 only");
  }
}

void SetValue(onnx::ValueInfoProto* info, const std::string& name, DType dtype,
              const Shape& shape) {
  info->set_name(name);
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(TypeOf(dtype));
  auto* dims = tensor->mutable_shape();
  for (const int64_t d : shape) {
    auto* dim = dims->add_dim();
    if (d >= 0) dim->set_dim_value(d);
  }
}

GraphValue ToGraphValue(const std::string& name, DType dtype, const Shape& shape) {
  GraphValue value;
  value.name = name;
  value.dtype = dtype;
  value.shape = shape;
  value.dim_names.resize(shape.size());
  return value;
}

void SetAttributes(onnx::NodeProto* node, const std::vector<GraphAttribute>& attributes) {
  for (const auto& [name, value] : attributes) {
    auto* attribute = node->add_attribute();
    attribute->set_name(name);
    if (const auto* i = std::get_if<int64_t>(&value)) {
      attribute->set_type(onnx::AttributeProto::INT);
      attribute->set_i(*i);
    } else if (const auto* f = std::get_if<float>(&value)) {
      attribute->set_type(onnx::AttributeProto::FLOAT);
      attribute->set_f(*f);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      attribute->set_type(onnx::AttributeProto::STRING);
      attribute->set_s(*text);
    } else {
      attribute->set_type(onnx::AttributeProto::INTS);
      for (const int64_t x : std::get<std::vector<int64_t>>(value)) attribute->add_ints(x);
    }
  }
}

}  // namespace

struct GraphBuilder::Impl {
  onnx::ModelProto model;
  std::vector<GraphValue> inputs, outputs;
  std::set<std::string> domains;
  int values = 0;

  std::string NewName(const std::string& op) { return op + "_" + std::to_string(values++); }
};

GraphBuilder::GraphBuilder() : impl_(std::make_unique<Impl>()) {
  impl_->model.mutable_graph()->set_name("graph");
}

GraphBuilder::~GraphBuilder() = default;

std::string GraphBuilder::Input(const std::string& name, DType dtype, const Shape& shape) {
  SetValue(impl_->model.mutable_graph()->add_input(), name, dtype, shape);
  impl_->inputs.push_back(ToGraphValue(name, dtype, shape));
  return name;
}

void GraphBuilder::Output(const std::string& value, const std::string& name, DType dtype,
                          const Shape& shape) {
  auto* node = impl_->model.mutable_graph()->add_node();
  node->set_op_type("Identity");
  node->add_input(value);
  node->add_output(name);
  SetValue(impl_->model.mutable_graph()->add_output(), name, dtype, shape);
  impl_->outputs.push_back(ToGraphValue(name, dtype, shape));
}

std::string GraphBuilder::Floats(const Shape& shape, const std::vector<float>& values) {
  auto* tensor = impl_->model.mutable_graph()->add_initializer();
  tensor->set_name(impl_->NewName("constant"));
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t d : shape) tensor->add_dims(d);
  for (const float value : values) tensor->add_float_data(value);
  return tensor->name();
}

std::string GraphBuilder::Integers(const std::vector<int64_t>& values) {
  auto* tensor = impl_->model.mutable_graph()->add_initializer();
  tensor->set_name(impl_->NewName("constant"));
  tensor->set_data_type(onnx::TensorProto::INT64);
  tensor->add_dims(static_cast<int64_t>(values.size()));
  for (const int64_t value : values) tensor->add_int64_data(value);
  return tensor->name();
}

std::vector<std::string> GraphBuilder::Nodes(const std::string& op,
                                             const std::vector<std::string>& inputs, size_t outputs,
                                             const std::vector<GraphAttribute>& attributes) {
  auto* node = impl_->model.mutable_graph()->add_node();
  node->set_op_type(op);
  for (const std::string& input : inputs) node->add_input(input);
  std::vector<std::string> names;
  for (size_t i = 0; i < outputs; ++i) {
    names.push_back(impl_->NewName(op));
    node->add_output(names.back());
  }
  node->set_name(names.front());
  SetAttributes(node, attributes);
  return names;
}

std::string GraphBuilder::Node(const std::string& op, const std::vector<std::string>& inputs,
                               const std::vector<GraphAttribute>& attributes,
                               const std::string& domain) {
  const std::string output = Nodes(op, inputs, 1, attributes).front();
  if (!domain.empty()) {
    auto* graph = impl_->model.mutable_graph();
    graph->mutable_node(graph->node_size() - 1)->set_domain(domain);
    impl_->domains.insert(domain);
  }
  return output;
}

std::string GraphBuilder::Observe(const std::string& x, int id) {
  return Node(std::string(kObserveOp), {x}, {{std::string(kTapIdAttribute), int64_t{id}}},
              std::string(kTapDomain));
}

std::string GraphBuilder::Compare(const std::string& x, const std::string& y, int id) {
  return Node(std::string(kCompareOp), {x, y}, {{std::string(kTapIdAttribute), int64_t{id}}},
              std::string(kTapDomain));
}

RunnableGraph GraphBuilder::Finish() {
  onnx::ModelProto& model = impl_->model;
  model.set_ir_version(8);
  auto* standard = model.add_opset_import();
  standard->set_domain("");
  standard->set_version(kOpset);
  for (const std::string& domain : impl_->domains) {
    auto* import = model.add_opset_import();
    import->set_domain(domain);
    import->set_version(1);
  }
  RunnableGraph graph;
  graph.model = model.SerializeAsString();
  graph.inputs = std::move(impl_->inputs);
  graph.outputs = std::move(impl_->outputs);
  impl_ = std::make_unique<Impl>();
  return graph;
}

}  // namespace hif8
