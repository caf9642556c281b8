#include "lib/runtime/data_convert.h"

#include <algorithm>
#include <cstring>

namespace hif8 {
namespace {

struct IntegerKind {
  int bits = 0;  // 0: no integer
  bool is_signed = false;
};

IntegerKind KindOf(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return {8, false};
    case DType::kI8:
      return {8, true};
    case DType::kU16:
      return {16, false};
    case DType::kI16:
      return {16, true};
    case DType::kU32:
      return {32, false};
    case DType::kI32:
      return {32, true};
    case DType::kU64:
      return {64, false};
    case DType::kI64:
      return {64, true};
    default:
      return {};
  }
}

bool Holds(DType wide, DType narrow) {
  if (wide == DType::kF64) return IsFloat(narrow);
  return wide == DType::kF32 && (narrow == DType::kF16 || narrow == DType::kBF16);
}

// Little-endian two's complement: the bytes that are added repeat the sign.
void Widen(const TensorView& view, size_t to_size, std::byte* out) {
  const size_t size = DTypeSize(view.dtype);
  const bool is_signed = KindOf(view.dtype).is_signed;
  for (size_t i = 0; i < view.size(); ++i, out += to_size) {
    const std::byte* in = view.data + i * size;
    const bool negative = is_signed && (in[size - 1] & std::byte{0x80}) != std::byte{0};
    std::memcpy(out, in, size);
    std::memset(out + size, negative ? 0xff : 0, to_size - size);
  }
}

void ToDouble(const TensorView& view, std::byte* out) {
  std::vector<float> buffer;
  const std::span<const float> values = AsFloats(view, &buffer);
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    std::memcpy(out + i * sizeof(double), &value, sizeof(double));
  }
}

}  // namespace

Conversion ConversionBetween(DType from, DType to) {
  if (from == to) return Conversion::kNone;
  if (from == DType::kU16 && to == DType::kBF16) return Conversion::kBits;
  if (IsFloat(from) && IsFloat(to)) {
    return Holds(to, from) ? Conversion::kExact : Conversion::kRounded;
  }
  const IntegerKind a = KindOf(from);
  const IntegerKind b = KindOf(to);
  const bool fits = a.bits > 0 && b.bits > a.bits && (b.is_signed || !a.is_signed);
  return fits ? Conversion::kExact : Conversion::kRefused;
}

Tensor Convert(const TensorView& view, DType to) {
  std::byte* out = nullptr;
  Tensor tensor = Tensor::Allocate(to, view.shape, &out);
  if (ConversionBetween(view.dtype, to) == Conversion::kBits) {
    std::copy_n(view.data, view.bytes(), out);
  } else if (!IsFloat(to)) {
    Widen(view, DTypeSize(to), out);
  } else if (to == DType::kF64) {
    ToDouble(view, out);
  } else {
    std::vector<float> buffer;
    const std::span<const float> values = AsFloats(view, &buffer);
    ConvertFromFloat(to, values.data(), values.size(), out);
  }
  return tensor;
}

Tensor Concatenate(const std::vector<Tensor>& parts) {
  Shape shape = parts[0].view.shape;
  shape[0] = 0;
  for (const Tensor& part : parts) shape[0] += part.view.shape[0];
  std::byte* out = nullptr;
  Tensor whole = Tensor::Allocate(parts[0].view.dtype, std::move(shape), &out);
  for (const Tensor& part : parts) out = std::copy_n(part.view.data, part.view.bytes(), out);
  return whole;
}

}  // namespace hif8
