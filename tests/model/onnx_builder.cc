#include "tests/model/onnx_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "lib/core/error.h"

namespace hif8 {
namespace {

template <typename T>
onnx::TensorProto RawTensor(const std::string& name, const Shape& shape,
                            const std::vector<T>& values, int type) {
  EXPECT_EQ(values.size(), ElementCount(shape)) << name;
  onnx::TensorProto tensor;
  if (!name.empty()) tensor.set_name(name);
  tensor.set_data_type(type);
  for (const int64_t d : shape) tensor.add_dims(d);
  tensor.set_raw_data(values.data(), values.size() * sizeof(T));
  return tensor;
}

}  // namespace

onnx::TensorProto MakeFloatTensor(const std::string& name, const Shape& shape,
                                  const std::vector<float>& values) {
  return RawTensor(name, shape, values, onnx::TensorProto::FLOAT);
}

GraphBuilder& GraphBuilder::Input(const std::string& name, const Shape& shape, DType dtype) {
  onnx::ValueInfoProto* value = graph_.add_input();
  value->set_name(name);
  auto* type = value->mutable_type()->mutable_tensor_type();
  type->set_elem_type(FromDType(dtype));
  type->mutable_shape();
  for (const int64_t d : shape) {
    auto* dim = type->mutable_shape()->add_dim();
    if (d >= 0) dim->set_dim_value(d);
  }
  return *this;
}

GraphBuilder& GraphBuilder::Output(const std::string& name, DType dtype) {
  onnx::ValueInfoProto* value = graph_.add_output();
  value->set_name(name);
  value->mutable_type()->mutable_tensor_type()->set_elem_type(FromDType(dtype));
  return *this;
}

GraphBuilder& GraphBuilder::Weight(const std::string& name, const Shape& shape,
                                   const std::vector<float>& values) {
  *graph_.add_initializer() = MakeFloatTensor(name, shape, values);
  return *this;
}

GraphBuilder& GraphBuilder::Ints(const std::string& name, const Shape& shape,
                                 const std::vector<int64_t>& values) {
  *graph_.add_initializer() = RawTensor(name, shape, values, onnx::TensorProto::INT64);
  return *this;
}

onnx::NodeProto* GraphBuilder::Node(const std::string& op, const std::vector<std::string>& inputs,
                                    const std::vector<std::string>& outputs,
                                    const std::string& name) {
  onnx::NodeProto* node = graph_.add_node();
  node->set_op_type(op);
  if (!name.empty()) node->set_name(name);
  for (const std::string& input : inputs) node->add_input(input);
  for (const std::string& output : outputs) node->add_output(output);
  return node;
}

onnx::NodeProto* GraphBuilder::Constant(const std::string& name, const Shape& shape,
                                        const std::vector<float>& values) {
  onnx::NodeProto* node = Node("Constant", {}, {name});
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name("value");
  attribute->set_type(onnx::AttributeProto::TENSOR);
  *attribute->mutable_t() = MakeFloatTensor("", shape, values);
  return node;
}

onnx::TensorProto* GraphBuilder::tensor(const std::string& name) {
  for (onnx::TensorProto& tensor : *graph_.mutable_initializer()) {
    if (tensor.name() == name) return &tensor;
  }
  ADD_FAILURE() << "no initializer " << name;
  std::abort();
}

ModelBuilder::ModelBuilder(std::shared_ptr<onnx::ModelProto> model)
    : GraphBuilder(model->mutable_graph()), model_(std::move(model)) {}

ModelBuilder::ModelBuilder(int opset, int ir) : ModelBuilder(std::make_shared<onnx::ModelProto>()) {
  model_->set_ir_version(ir);
  model_->mutable_graph()->set_name("test");
  onnx::OperatorSetIdProto* import = model_->add_opset_import();
  import->set_domain("");
  import->set_version(opset);
}

std::filesystem::path ModelBuilder::Save(const std::filesystem::path& folder,
                                         const std::string& name) const {
  const std::filesystem::path path = folder / name;
  std::ofstream file(path, std::ios::binary);
  EXPECT_TRUE(model_->SerializeToOstream(&file)) << path;
  return path;
}

void SetInts(onnx::NodeProto* node, const std::string& name, const std::vector<int64_t>& values) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INTS);
  for (const int64_t value : values) attribute->add_ints(value);
}

void SetString(onnx::NodeProto* node, const std::string& name, const std::string& value) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::STRING);
  attribute->set_s(value);
}

GraphBuilder AddBody(onnx::NodeProto* node, const std::string& attribute_name) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(attribute_name);
  attribute->set_type(onnx::AttributeProto::GRAPH);
  attribute->mutable_g()->set_name(attribute_name);
  return GraphBuilder(attribute->mutable_g());
}

void MoveToFile(onnx::TensorProto* tensor, const std::filesystem::path& file,
                const std::string& location) {
  std::ofstream out(file, std::ios::binary | std::ios::app);
  out.seekp(0, std::ios::end);
  const auto offset = static_cast<long long>(out.tellp());
  out.write(tensor->raw_data().data(), static_cast<std::streamsize>(tensor->raw_data().size()));
  const auto add = [&](const char* key, const std::string& value) {
    onnx::StringStringEntryProto* entry = tensor->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", location);
  add("offset", std::to_string(offset));
  add("length", std::to_string(tensor->raw_data().size()));
  tensor->set_data_location(onnx::TensorProto::EXTERNAL);
  tensor->clear_raw_data();
}

onnx::ModelProto ParseFile(const std::filesystem::path& path) {
  onnx::ModelProto proto;
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(proto.ParseFromIstream(&file)) << path;
  return proto;
}

const onnx::TensorProto* FindTensor(const onnx::GraphProto& graph, const std::string& name) {
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    if (tensor.name() == name) return &tensor;
  }
  return nullptr;
}

std::vector<std::string> OpTypes(const onnx::GraphProto& graph) {
  std::vector<std::string> types;
  for (const onnx::NodeProto& node : graph.node()) types.push_back(node.op_type());
  return types;
}

std::vector<float> Numbers(size_t n, uint32_t seed) {
  uint32_t state = seed * 2654435761u + 12345u;
  std::vector<float> values(n);
  for (float& value : values) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    value = static_cast<float>(static_cast<int32_t>(state)) / 2147483648.0f;
  }
  return values;
}

TestFolder::TestFolder() {
  std::string name = (std::filesystem::path(testing::TempDir()) / "onnx_XXXXXX").string();
  EXPECT_NE(::mkdtemp(name.data()), nullptr) << name;
  path_ = std::filesystem::canonical(name);
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::unique_ptr<OnnxModel> LoadModel(const std::filesystem::path& path,
                                     const OnnxLoadOptions& options) {
  return OnnxModel::Load(path, NullLog(), options);
}

const Layer& FindLayer(const OnnxModel& model, const std::string& name) {
  std::string known;
  for (const Layer& layer : model.layers()) {
    if (layer.name == name) return layer;
    known += " '" + layer.name + "'";
  }
  ADD_FAILURE() << "no layer '" << name << "'; there are" << known;
  static const Layer kNone;
  return kNone;
}

std::vector<float> WeightValues(const OnnxModel& model, int weight) {
  const Tensor tensor = model.ReadWeight(weight);
  std::vector<float> values(tensor.view.size());
  ConvertToFloat(tensor.view.dtype, tensor.view.data, values.size(), values.data());
  return values;
}

void ExpectModelError(const std::function<void()>& body, const std::vector<std::string>& parts) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kModel) << error.message();
    const std::string text = error.message() + " | " + error.hint() + " | " + error.where();
    for (const std::string& part : parts) EXPECT_THAT(text, testing::HasSubstr(part));
    return;
  }
  ADD_FAILURE() << "no error; expected one with '" << (parts.empty() ? "" : parts[0]) << "'";
}

}  // namespace hif8
