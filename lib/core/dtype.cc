#include "lib/core/dtype.h"

#include <Eigen/Core>
#include <array>
#include <cstring>

#include "lib/core/widen.h"

namespace hif8 {
namespace {

struct Entry {
  std::string_view name;
  size_t size;
};

constexpr std::array<Entry, 15> kTypes = {{{"BOOL", 1},
                                           {"U8", 1},
                                           {"I8", 1},
                                           {"U16", 2},
                                           {"I16", 2},
                                           {"F16", 2},
                                           {"BF16", 2},
                                           {"U32", 4},
                                           {"I32", 4},
                                           {"F32", 4},
                                           {"U64", 8},
                                           {"I64", 8},
                                           {"F64", 8},
                                           {"F8_E4M3", 1},
                                           {"F8_E5M2", 1}}};

template <typename T>
void FromFloat(const float* src, size_t n, std::byte* dst) {
  for (size_t i = 0; i < n; ++i) {
    const T value = static_cast<T>(src[i]);
    std::memcpy(dst + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

size_t DTypeSize(DType dtype) { return kTypes[static_cast<size_t>(dtype)].size; }
std::string_view DTypeName(DType dtype) { return kTypes[static_cast<size_t>(dtype)].name; }

bool ParseDType(std::string_view name, DType* dtype) {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name) {
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
