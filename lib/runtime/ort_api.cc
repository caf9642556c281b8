#include "lib/runtime/ort_api.h"

#include <array>
#include <utility>

#include "lib/core/error.h"

namespace hif8 {
namespace {

constexpr std::array<std::pair<DType, ONNXTensorElementDataType>, 15> kTypes = {{
    {DType::kBool, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL},
    {DType::kU8, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8},
    {DType::kI8, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8},
    {DType::kU16, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16},
    {DType::kI16, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16},
    {DType::kF16, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16},
    {DType::kBF16, ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16},
    {DType::kU32, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32},
    {DType::kI32, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32},
    {DType::kF32, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT},
    {DType::kU64, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64},
    {DType::kI64, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64},
    {DType::kF64, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE},
    {DType::kF8E4M3, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN},
    {DType::kF8E5M2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2},
}};

}  // namespace

std::optional<DType> FromOrt(ONNXTensorElementDataType type) {
  for (const auto& [dtype, ort] : kTypes) {
    if (ort == type) return dtype;
  }
  return std::nullopt;
}

ONNXTensorElementDataType ToOrt(DType dtype) {
  for (const auto& [known, ort] : kTypes) {
    if (known == dtype) return ort;
  }
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

TensorView ViewOf(Ort::ConstValue value) {
  const auto info = value.GetTensorTypeAndShapeInfo();
  const std::optional<DType> dtype = FromOrt(info.GetElementType());
  if (!dtype) {
    throw ModelError("a tensor has element type " + std::to_string(info.GetElementType()) +
                         " of ONNX, which is not supported here",
                     "export the model with floating-point or integer tensors");
  }
  return {*dtype, info.GetShape(), static_cast<const std::byte*>(value.GetTensorRawData())};
}

std::vector<std::string> InputNames(const Ort::Session& session) {
  Ort::AllocatorWithDefaultOptions allocator;
  std::vector<std::string> names(session.GetInputCount());
  for (size_t i = 0; i < names.size(); ++i) {
    names[i] = session.GetInputNameAllocated(i, allocator).get();
  }
  return names;
}

std::vector<std::string> OutputNames(const Ort::Session& session) {
  Ort::AllocatorWithDefaultOptions allocator;
  std::vector<std::string> names(session.GetOutputCount());
  for (size_t i = 0; i < names.size(); ++i) {
    names[i] = session.GetOutputNameAllocated(i, allocator).get();
  }
  return names;
}

}  // namespace hif8
