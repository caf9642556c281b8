#include "lib/model/onnx/check_tensor.h"

#include <string>
#include <vector>

#include "lib/core/error.h"
#include "lib/model/onnx/sparse.h"

namespace hif8 {
namespace {

constexpr auto kHint = "the file is damaged; export the model again";

uint64_t Rounded(uint64_t elements, uint64_t per_byte) {
  return elements / per_byte + (elements % per_byte == 0 ? 0 : 1);
}

// How many entries of its typed field a tensor of so many elements has: complex numbers are two.
// `found`: how many there are.
struct TypedField {
  uint64_t found = 0;
  uint64_t per_element = 1;
};
TypedField FieldOf(const onnx::TensorProto& tensor) {
  switch (tensor.data_type()) {
    case onnx::TensorProto::FLOAT:
      return {static_cast<uint64_t>(tensor.float_data_size())};
    case onnx::TensorProto::COMPLEX64:
      return {static_cast<uint64_t>(tensor.float_data_size()), 2};
    case onnx::TensorProto::DOUBLE:
      return {static_cast<uint64_t>(tensor.double_data_size())};
    case onnx::TensorProto::COMPLEX128:
      return {static_cast<uint64_t>(tensor.double_data_size()), 2};
    case onnx::TensorProto::INT64:
      return {static_cast<uint64_t>(tensor.int64_data_size())};
    case onnx::TensorProto::UINT32:
    case onnx::TensorProto::UINT64:
      return {static_cast<uint64_t>(tensor.uint64_data_size())};
    case onnx::TensorProto::STRING:
      return {static_cast<uint64_t>(tensor.string_data_size())};
    default:
      return {static_cast<uint64_t>(tensor.int32_data_size())};
  }
}

bool IsHalfByte(int type) {
  return type == kOnnxUint4 || type == kOnnxInt4 || type == kOnnxFloat4E2M1;
}

void CheckField(const onnx::TensorProto& tensor, uint64_t elements) {
  const auto [found, per_element] = FieldOf(tensor);
  if (found == elements * per_element) return;
  // Two four-bit elements share an entry.
  if (IsHalfByte(tensor.data_type()) && found == Rounded(elements, 2)) return;
  throw ModelError("the tensor holds " + std::to_string(found) + " values, its shape " +
                       ShapeText(TensorShape(tensor)) + " needs " +
                       std::to_string(elements * per_element),
                   kHint, tensor.name());
}

Error SparseError(const onnx::SparseTensorProto& sparse, const std::string& what) {
  return ModelError("the sparse tensor is damaged: " + what, "export the model again",
                    sparse.values().name());
}

}  // namespace

std::optional<uint64_t> BytesOf(const Shape& shape) {
  int64_t bytes = 2 * sizeof(double);
  bool empty = false;
  for (const int64_t d : shape) {
    empty = empty || d == 0;
    if (d != 0 && __builtin_mul_overflow(bytes, d, &bytes)) return std::nullopt;
  }
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

void CheckTensor(const onnx::TensorProto& tensor, const DataFiles& files) {
  const Shape shape = TensorShape(tensor);
  if (tensor.data_type() == onnx::TensorProto::UNDEFINED) {
    throw ModelError("the tensor has no element type", kHint, tensor.name());
  }
  const uint64_t elements = ElementCount(shape);
  DType dtype;
  const bool known = ToDType(tensor.data_type(), &dtype);
  if (IsExternal(tensor)) {
    if (known) files.Find(tensor, elements * DTypeSize(dtype));
  } else if (!tensor.has_raw_data()) {
    CheckField(tensor, elements);
  } else if (known && tensor.raw_data().size() != elements * DTypeSize(dtype)) {
    throw ModelError("the tensor holds " + std::to_string(tensor.raw_data().size()) +
                         " bytes, its shape " + ShapeText(shape) + " needs " +
                         std::to_string(elements * DTypeSize(dtype)),
                     kHint, tensor.name());
  }
}

void CheckSparseTensor(const onnx::SparseTensorProto& sparse, const DataFiles& files) {
  onnx::TensorProto shape_only;
  *shape_only.mutable_dims() = sparse.dims();
  shape_only.set_name(sparse.values().name());
  const Shape shape = TensorShape(shape_only);
  CheckTensor(sparse.values(), files);
  const uint64_t values = ElementCount(TensorShape(sparse.values()));
  if (sparse.values().dims_size() != 1) throw SparseError(sparse, "its values are no list");
  if (values == 0) return;
  CheckTensor(sparse.indices(), files);
  const std::vector<uint64_t> positions = SparsePositions(sparse, files);
  if (positions.size() != values) {
    throw SparseError(sparse, std::to_string(values) + " values have " +
                                  std::to_string(positions.size()) + " positions");
  }
  const uint64_t elements = ElementCount(shape);
  for (size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] >= elements || (i > 0 && positions[i] <= positions[i - 1])) {
      throw SparseError(sparse, "the position of its value " + std::to_string(i) +
                                    " lies outside of its shape " + ShapeText(shape) +
                                    " or does not follow the one before");
    }
  }
}

}  // namespace hif8
