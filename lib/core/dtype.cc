#include "lib/core/dtype.h"

#include <Eigen/Core>
#include <array>
#include <cstring>

#include "lib/core/widen.h"

namespace hif8 {
namespace {

struct Entry {
  std::string_view name;
  size_t bits;
};

constexpr std::array<Entry, 21> kTypes = {
    {{"BOOL", 8},  {"U8", 8},      {"I8", 8},      {"U16", 16},    {"I16", 16},    {"F16", 16},
     {"BF16", 16}, {"U32", 32},    {"I32", 32},    {"F32", 32},    {"U64", 64},    {"I64", 64},
     {"F64", 64},  {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6},
     {"F4", 4},    {"C64", 64},    {"opaque", 0}}};
static_assert(kTypes.size() == static_cast<size_t>(DType::kOpaque) + 1);

template <typename T>
void FromFloat(const float* src, size_t n, std::byte* dst) {
  for (size_t i = 0; i < n; ++i) {
    const T value = static_cast<T>(src[i]);
    std::memcpy(dst + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

size_t DTypeBits(DType dtype) { return kTypes[static_cast<size_t>(dtype)].bits; }
size_t DTypeSize(DType dtype) { return DTypeBits(dtype) / 8; }
std::string_view DTypeName(DType dtype) { return kTypes[static_cast<size_t>(dtype)].name; }

bool ParseDType(std::string_view name, DType* dtype) {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name && kTypes[i].bits > 0) {
      *dtype = static_cast<DType>(i);
      return true;
    }
  }
  return false;
}

bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kF64;
}

void ConvertToFloat(DType dtype, const std::byte* src, size_t n, float* dst) {
  if (n == 0) return;  // of nothing there may be no address
  switch (dtype) {
    case DType::kF32:
      std::memcpy(dst, src, n * sizeof(float));
      break;
    case DType::kF16:
      WidenF16(src, n, dst);
      break;
    case DType::kBF16:
      WidenBF16(src, n, dst);
      break;
    case DType::kF64:
      for (size_t i = 0; i < n; ++i) {
        double value;
        std::memcpy(&value, src + i * sizeof(double), sizeof(double));
        dst[i] = static_cast<float>(value);
      }
      break;
    default:
      break;
  }
}

void ConvertFromFloat(DType dtype, const float* src, size_t n, std::byte* dst) {
  if (n == 0) return;
  switch (dtype) {
    case DType::kF32:
      std::memcpy(dst, src, n * sizeof(float));
      break;
    case DType::kF16:
      FromFloat<Eigen::half>(src, n, dst);
      break;
    case DType::kBF16:
      FromFloat<Eigen::bfloat16>(src, n, dst);
      break;
    case DType::kF64:
      FromFloat<double>(src, n, dst);
      break;
    default:
      break;
  }
}

}  // namespace hif8
