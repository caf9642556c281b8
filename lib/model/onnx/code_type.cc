#include "lib/model/onnx/code_type.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "lib/model/onnx/tensor_data.h"
#include "lib/numeric/packed_codes.h"

namespace hif8 {
namespace {

using onnx::TensorProto;

// clang-format off
constexpr CodeType kCodeTypes[] = {
    {kOnnxFloat8E4M3,     kOnnxFloat8E4M3,    8},
    {kOnnxFloat8E5M2,     kOnnxFloat8E5M2,    8},
    {kOnnxFloat4E2M1,     kOnnxFloat4E2M1,    4},
    {TensorProto::INT8,   TensorProto::INT8,  8,  0,    {-128, 127}},
    {TensorProto::UINT8,  TensorProto::INT8,  8,  0x80, {0, 255}},
    {kOnnxInt4,           kOnnxInt4,          4,  0,    {-8, 7}},
    {kOnnxUint4,          kOnnxInt4,          4,  0x08, {0, 15}},
    {TensorProto::INT16,  TensorProto::INT16, 16, 0,    {-0x8000, 0x7FFF}},
    {TensorProto::UINT16, TensorProto::INT16, 16, 0,    {0, 0xFFFF}},
    {TensorProto::INT32,  TensorProto::INT32, 32, 0,    {-0x1p31F, 0x1p31F}}};
// clang-format on

template <typename T>
void Widen(const std::byte* data, std::span<float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, data + i * sizeof(T), sizeof(T));
    values[i] = static_cast<float>(value);
  }
}

}  // namespace

DType CodeType::dtype() const {
  DType known = DType::kU8;
  ToDType(type, &known);
  return known;
}

bool CodeType::Holds(const NumberFormat& format) const {
  return format.storage().onnx_type == OnnxTypeName(signed_type);
}

const NumberFormat* CodeType::Format(const FormatRegistry& formats) const {
  return FindFormat(formats, [this](const NumberFormat& format) {
    return Holds(format) && !format.storage().tiled;
  });
}

const CodeType* FindCodeType(int onnx_type) {
  const auto* const found = std::ranges::find(kCodeTypes, onnx_type, &CodeType::type);
  return found != std::end(kCodeTypes) ? found : nullptr;
}

size_t StoredBytes(const TensorProto& tensor) {
  const size_t elements = ElementCount(TensorShape(tensor));
  DType dtype = DType::kF32;
  if (ToDType(tensor.data_type(), &dtype)) return elements * DTypeSize(dtype);
  const CodeType* type = FindCodeType(tensor.data_type());
  return type != nullptr && type->bits == 4 ? PackedRowBytes(elements) : 0;
}

Tensor ReadCodeTensor(const TensorProto& tensor, const CodeType& type, const DataFiles& files) {
  const bool halves = type.bits == 4;
  Tensor stored = halves ? ReadHalfBytes(tensor, files) : ReadTensor(tensor, files);
  if (!halves && type.flip == 0) return stored;
  std::byte* bytes = nullptr;
  Tensor result = Tensor::Allocate(DType::kU8, TensorShape(tensor), &bytes);
  const std::span<const uint8_t> from{reinterpret_cast<const uint8_t*>(stored.view.data),
                                      stored.view.bytes()};
  const std::span<uint8_t> codes{reinterpret_cast<uint8_t*>(bytes), result.view.size()};
  if (halves && !codes.empty()) UnpackCodes(from, codes.size(), codes);
  const std::span<const uint8_t> unpacked = halves ? codes : from;
  std::ranges::transform(unpacked, codes.begin(),
                         [&](uint8_t code) { return static_cast<uint8_t>(code ^ type.flip); });
  return result;
}

std::vector<float> ReadNumbers(const TensorProto& tensor, const FormatRegistry& formats,
                               const DataFiles& files) {
  const CodeType* type = FindCodeType(tensor.data_type());
  std::vector<float> values(ElementCount(TensorShape(tensor)));
  if (const NumberFormat* format = type != nullptr ? type->Format(formats) : nullptr) {
    const Tensor codes = ReadCodeTensor(tensor, *type, files);
    const std::span<const float> table = format->DecodeTable();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = table[static_cast<uint8_t>(codes.view.data[i])] + type->flip;
    }
    return values;
  }
  const Tensor stored = ReadTensor(tensor, files);
  switch (stored.view.dtype) {
    case DType::kI16:
      Widen<int16_t>(stored.view.data, values);
      break;
    case DType::kU16:
      Widen<uint16_t>(stored.view.data, values);
      break;
    case DType::kI32:
      Widen<int32_t>(stored.view.data, values);
      break;
    default:
      ConvertToFloat(stored.view.dtype, stored.view.data, values.size(), values.data());
  }
  return values;
}

}  // namespace hif8
