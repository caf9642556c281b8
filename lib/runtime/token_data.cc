#include "lib/runtime/token_data.h"

#include <cstring>

#include "lib/core/error.h"
#include "lib/core/npy.h"

namespace hif8 {
namespace {

template <typename T>
int64_t Load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return static_cast<int64_t>(value);
}

int64_t IntegerAt(const TensorView& view, size_t index) {
  const std::byte* p = view.data + index * DTypeSize(view.dtype);
  switch (view.dtype) {
    case DType::kU8:
      return Load<uint8_t>(p);
    case DType::kI8:
      return Load<int8_t>(p);
    case DType::kU16:
      return Load<uint16_t>(p);
    case DType::kI16:
      return Load<int16_t>(p);
    case DType::kU32:
      return Load<uint32_t>(p);
    case DType::kI32:
      return Load<int32_t>(p);
    case DType::kU64:
      return Load<uint64_t>(p);
    default:
      return Load<int64_t>(p);
  }
}

bool IsInteger(DType dtype) {
  return !IsFloat(dtype) && dtype != DType::kBool && dtype != DType::kF8E4M3 &&
         dtype != DType::kF8E5M2;
}

}  // namespace

TokenData ReadTokenIds(const std::filesystem::path& path) {
  const Tensor tensor = ReadNpy(path);
  const Shape& shape = tensor.view.shape;
  if (!IsInteger(tensor.view.dtype) || shape.empty() || shape.size() > 2) {
    throw ModelError("expected token ids, integers of shape [samples, length] or [length], found " +
                         std::string(DTypeName(tensor.view.dtype)) + " " + ShapeText(shape),
                     "", path.string());
  }
  const size_t count = shape.size() == 2 ? static_cast<size_t>(shape[0]) : 1;
  const auto length = static_cast<size_t>(shape.back());
  TokenData data;
  data.source = path.string();
  data.samples.resize(count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t t = 0; t < length; ++t) {
      data.samples[i].push_back(IntegerAt(tensor.view, i * length + t));
    }
  }
  return data;
}

void CheckTokenIds(const TokenData& data, int64_t vocabulary) {
  for (size_t i = 0; i < data.samples.size(); ++i) {
    const std::vector<int64_t>& ids = data.samples[i];
    if (ids.empty()) {
      throw ModelError("sample " + std::to_string(i) + " has no tokens", "", data.source);
    }
    for (size_t t = 0; t < ids.size(); ++t) {
      if (ids[t] >= 0 && ids[t] < vocabulary) continue;
      throw ModelError("sample " + std::to_string(i) + ", position " + std::to_string(t) +
                           ": expected a token id from 0 to " + std::to_string(vocabulary - 1) +
                           ", found " + std::to_string(ids[t]),
                       "was the data made with the tokenizer of this model?", data.source);
    }
  }
}

}  // namespace hif8
