#include "lib/model/onnx/tensor_data.h"

#include <cstring>

#include "lib/core/error.h"

namespace hif8 {
namespace {

Error CountError(const onnx::TensorProto& tensor, uint64_t found, uint64_t expected,
                 const char* what) {
  return ModelError("the tensor holds " + std::to_string(found) + what + ", its shape " +
                        ShapeText(TensorShape(tensor)) + " needs " + std::to_string(expected),
                    "the file is damaged; export the model again", tensor.name());
}

// Copies a repeated field into a new tensor, each value narrowed to `Narrow`.
template <typename Narrow, typename Field>
Tensor CopyField(const onnx::TensorProto& tensor, const TensorView& wanted, const Field& field) {
  const size_t n = wanted.size();
  if (static_cast<size_t>(field.size()) != n) {
    throw CountError(tensor, static_cast<uint64_t>(field.size()), n, " values");
  }
  std::byte* bytes = nullptr;
  Tensor copy = Tensor::Allocate(wanted.dtype, wanted.shape, &bytes);
  for (size_t i = 0; i < n; ++i) {
    const auto value = static_cast<Narrow>(field.Get(static_cast<int>(i)));
    std::memcpy(bytes + i * sizeof(Narrow), &value, sizeof(Narrow));
  }
  return copy;
}

Tensor ReadField(const onnx::TensorProto& tensor, const TensorView& wanted) {
  switch (wanted.dtype) {
    case DType::kF32:
      return CopyField<float>(tensor, wanted, tensor.float_data());
    case DType::kF64:
      return CopyField<double>(tensor, wanted, tensor.double_data());
    case DType::kI64:
      return CopyField<int64_t>(tensor, wanted, tensor.int64_data());
    case DType::kU64:
      return CopyField<uint64_t>(tensor, wanted, tensor.uint64_data());
    case DType::kU32:
      return CopyField<uint32_t>(tensor, wanted, tensor.uint64_data());
    case DType::kI32:
      return CopyField<int32_t>(tensor, wanted, tensor.int32_data());
    case DType::kF16:  // the bit pattern in the low half, as for the other 16-bit types
    case DType::kBF16:
    case DType::kU16:
    case DType::kI16:
      return CopyField<uint16_t>(tensor, wanted, tensor.int32_data());
    default:
      return CopyField<uint8_t>(tensor, wanted, tensor.int32_data());
  }
}

Tensor ReadAs(const onnx::TensorProto& tensor, DType dtype, Shape shape, const DataFiles& files) {
  Tensor result;
  result.view.dtype = dtype;
  result.view.shape = std::move(shape);
  if (IsExternal(tensor)) {
    DataFiles::Part part = files.Find(tensor, result.view.bytes());
    result.view.data = part.bytes.data();
    result.owner = std::move(part.file);
    return result;
  }
  if (tensor.has_raw_data()) {
    if (tensor.raw_data().size() != result.view.bytes()) {
      throw CountError(tensor, tensor.raw_data().size(), result.view.bytes(), " bytes");
    }
    result.view.data = reinterpret_cast<const std::byte*>(tensor.raw_data().data());
    return result;
  }
  return ReadField(tensor, result.view);
}

}  // namespace

Tensor ReadTensor(const onnx::TensorProto& tensor, const DataFiles& files) {
  DType dtype;
  if (!ToDType(tensor.data_type(), &dtype)) {
    throw ModelError("tensors of " + OnnxTypeName(tensor.data_type()) + " cannot be read",
                     "export the model with tensors of another type", tensor.name());
  }
  return ReadAs(tensor, dtype, TensorShape(tensor), files);
}

Tensor ReadHalfBytes(const onnx::TensorProto& tensor, const DataFiles& files) {
  const auto elements = static_cast<int64_t>(ElementCount(TensorShape(tensor)));
  return ReadAs(tensor, DType::kU8, {(elements + 1) / 2}, files);
}

std::optional<std::vector<int64_t>> ReadInts(const onnx::TensorProto& tensor,
                                             const DataFiles& files) {
  if (tensor.data_type() != onnx::TensorProto::INT64 &&
      tensor.data_type() != onnx::TensorProto::INT32) {
    return std::nullopt;
  }
  const Tensor values = ReadTensor(tensor, files);
  std::vector<int64_t> ints(values.view.size());
  for (size_t i = 0; i < ints.size(); ++i) {
    if (values.view.dtype == DType::kI64) {
      std::memcpy(&ints[i], values.view.data + i * sizeof(int64_t), sizeof(int64_t));
    } else {
      int32_t narrow = 0;
      std::memcpy(&narrow, values.view.data + i * sizeof(int32_t), sizeof(int32_t));
      ints[i] = narrow;
    }
  }
  return ints;
}

std::optional<onnx::TensorProto> ConstantNodeTensor(const onnx::NodeProto& node,
                                                    const std::string& name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == "value" && attribute.has_t()) {
      onnx::TensorProto tensor = attribute.t();
      tensor.set_name(name);
      return tensor;
    }
    if (attribute.name() == "value_float") {
      return MakeTensor(name, {}, std::vector<float>{attribute.f()});
    }
    if (attribute.name() == "value_int") {
      return MakeTensor(name, {}, std::vector<int64_t>{attribute.i()});
    }
    if (attribute.name() == "value_floats") {
      return MakeTensor(name, {attribute.floats_size()},
                        std::vector<float>{attribute.floats().begin(), attribute.floats().end()});
    }
    if (attribute.name() == "value_ints") {
      return MakeTensor(name, {attribute.ints_size()},
                        std::vector<int64_t>{attribute.ints().begin(), attribute.ints().end()});
    }
  }
  return std::nullopt;
}

}  // namespace hif8
