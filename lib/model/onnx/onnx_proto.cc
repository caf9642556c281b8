#include "lib/model/onnx/onnx_proto.h"

#include <utility>

#include "lib/core/error.h"

namespace hif8 {
namespace {

constexpr std::pair<int, DType> kTypes[] = {
    {onnx::TensorProto::FLOAT, DType::kF32},     {onnx::TensorProto::UINT8, DType::kU8},
    {onnx::TensorProto::INT8, DType::kI8},       {onnx::TensorProto::UINT16, DType::kU16},
    {onnx::TensorProto::INT16, DType::kI16},     {onnx::TensorProto::INT32, DType::kI32},
    {onnx::TensorProto::INT64, DType::kI64},     {onnx::TensorProto::BOOL, DType::kBool},
    {onnx::TensorProto::FLOAT16, DType::kF16},   {onnx::TensorProto::DOUBLE, DType::kF64},
    {onnx::TensorProto::UINT32, DType::kU32},    {onnx::TensorProto::UINT64, DType::kU64},
    {onnx::TensorProto::BFLOAT16, DType::kBF16}, {kOnnxFloat8E4M3, DType::kF8E4M3},
    {kOnnxFloat8E5M2, DType::kF8E5M2},           {kOnnxFloat8E8M0, DType::kU8}};  // exponents

// Element types that libonnx 1.12 has no names for.
constexpr std::pair<int, const char*> kLaterTypes[] = {{kOnnxFloat8E4M3, "FLOAT8E4M3FN"},
                                                       {18, "FLOAT8E4M3FNUZ"},
                                                       {kOnnxFloat8E5M2, "FLOAT8E5M2"},
                                                       {20, "FLOAT8E5M2FNUZ"},
                                                       {kOnnxUint4, "UINT4"},
                                                       {kOnnxInt4, "INT4"},
                                                       {kOnnxFloat4E2M1, "FLOAT4E2M1"},
                                                       {kOnnxFloat8E8M0, "FLOAT8E8M0"}};

}  // namespace

bool ToDType(int onnx_type, DType* dtype) {
  for (const auto& [number, known] : kTypes) {
    if (number != onnx_type) continue;
    *dtype = known;
    return true;
  }
  return false;
}

int FromDType(DType dtype) {
  for (const auto& [number, known] : kTypes) {
    if (known == dtype) return number;
  }
  return onnx::TensorProto::UNDEFINED;
}

std::string OnnxTypeName(int onnx_type) {
  if (onnx::TensorProto::DataType_IsValid(onnx_type)) {
    return onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(onnx_type));
  }
  for (const auto& [number, name] : kLaterTypes) {
    if (number == onnx_type) return name;
  }
  return "type " + std::to_string(onnx_type);
}

const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, std::string_view name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

int64_t IntAttribute(const onnx::NodeProto& node, std::string_view name, int64_t otherwise) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  return attribute != nullptr && attribute->has_i() ? attribute->i() : otherwise;
}

std::vector<int64_t> IntsAttribute(const onnx::NodeProto& node, std::string_view name) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  if (attribute == nullptr) return {};
  return {attribute->ints().begin(), attribute->ints().end()};
}

std::string StringAttribute(const onnx::NodeProto& node, std::string_view name) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  return attribute != nullptr ? attribute->s() : std::string();
}

void SetAttribute(onnx::NodeProto* node, const std::string& name, int64_t value) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

int64_t StandardOpset(const onnx::ModelProto& model) {
  for (const onnx::OperatorSetIdProto& opset : model.opset_import()) {
    if (IsStandardDomain(opset.domain())) return opset.version();
  }
  return 0;
}

void SetOpset(onnx::ModelProto* model, const std::string& domain, int64_t version) {
  for (onnx::OperatorSetIdProto& opset : *model->mutable_opset_import()) {
    const bool same =
        IsStandardDomain(domain) ? IsStandardDomain(opset.domain()) : opset.domain() == domain;
    if (!same) continue;
    opset.set_version(version);
    return;
  }
  onnx::OperatorSetIdProto* opset = model->add_opset_import();
  opset->set_domain(domain);
  opset->set_version(version);
}

Shape TensorShape(const onnx::TensorProto& tensor) {
  Shape shape(tensor.dims().begin(), tensor.dims().end());
  size_t bytes = sizeof(double);  // as if of the widest type
  bool good = true;
  for (const int64_t d : shape) {
    good = good && d >= 0 && !__builtin_mul_overflow(bytes, static_cast<size_t>(d), &bytes);
  }
  if (!good) {
    throw ModelError("the tensor has an impossible shape " + ShapeText(shape),
                     "the file is damaged; export the model again", tensor.name());
  }
  return shape;
}

std::string NodeText(const onnx::NodeProto& node) {
  if (!node.name().empty()) return "node '" + node.name() + "' (" + node.op_type() + ")";
  return "unnamed " + node.op_type() + " node" +
         (node.output_size() > 0 ? " that computes '" + node.output(0) + "'" : std::string());
}

onnx::NodeProto MakeNode(const std::string& op, std::vector<std::string> inputs,
                         std::vector<std::string> outputs, const std::string& domain) {
  onnx::NodeProto node;
  node.set_op_type(op);
  if (!domain.empty()) node.set_domain(domain);
  for (std::string& input : inputs) node.add_input(std::move(input));
  for (std::string& output : outputs) node.add_output(std::move(output));
  return node;
}

onnx::TensorProto MakeTensor(const std::string& name, const Shape& shape, DType dtype,
                             const void* data) {
  onnx::TensorProto tensor;
  if (!name.empty()) tensor.set_name(name);
  for (const int64_t d : shape) tensor.add_dims(d);
  tensor.set_data_type(FromDType(dtype));
  tensor.set_raw_data(data, ElementCount(shape) * DTypeSize(dtype));
  return tensor;
}

namespace {

void CheckCount(const std::string& name, const Shape& shape, size_t count) {
  if (ElementCount(shape) == count) return;
  throw BugError(std::to_string(count) + " values for tensor '" + name + "' of shape " +
                 ShapeText(shape));
}

}  // namespace

onnx::TensorProto MakeTensor(const std::string& name, const Shape& shape,
                             const std::vector<float>& values) {
  CheckCount(name, shape, values.size());
  return MakeTensor(name, shape, DType::kF32, values.data());
}

onnx::TensorProto MakeTensor(const std::string& name, const Shape& shape,
                             const std::vector<int64_t>& values) {
  CheckCount(name, shape, values.size());
  return MakeTensor(name, shape, DType::kI64, values.data());
}

}  // namespace hif8
