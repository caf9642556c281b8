// Element types of tensors in memory and on disk, and conversion of the floating-point ones to
// fp32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace hif8 {

enum class DType : uint8_t {
  kBool,
  kU8,
  kI8,
  kU16,
  kI16,
  kF16,
  kBF16,
  kU32,
  kI32,
  kF32,
  kU64,
  kI64,
  kF64,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,  // from here on the values are not known, only how many bits they have
  kF6E2M3,
  kF6E3M2,
  kF4,
  kC64,
  kOpaque  // a type of a name that is not known: not even its size is
};

// Returns the bits of an element, 0 for kOpaque.
size_t DTypeBits(DType dtype);
// Returns the bytes of an element, 0 for kOpaque and for types of less than a byte.
size_t DTypeSize(DType dtype);
// True for types whose elements have values that are known here.
inline bool HasKnownValues(DType dtype) { return dtype < DType::kF8E8M0; }
// Returns the safetensors spelling: "F32", "BF16", "U8", "F8_E4M3", ...; "opaque" for kOpaque.
std::string_view DTypeName(DType dtype);
// Inverse of DTypeName; false when the name is unknown (kOpaque has none).
bool ParseDType(std::string_view name, DType* dtype);
// fp16, bf16, fp32, fp64: the types whose tensors can be quantized.
bool IsFloat(DType dtype);

// Converts `n` elements at `src` (no alignment needed) to fp32: exactly for F16, BF16 and F32,
// rounded to nearest even for F64. `dtype` must satisfy IsFloat.
void ConvertToFloat(DType dtype, const std::byte* src, size_t n, float* dst);
// The way back, rounded to nearest even; overflow becomes infinity. `dtype` must satisfy IsFloat.
void ConvertFromFloat(DType dtype, const float* src, size_t n, std::byte* dst);

}  // namespace hif8
