// Tensors as the modules pass them around: a view of bytes with a type and a shape, and an owner of
// such bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/core/dtype.h"

namespace hif8 {

using Shape = std::vector<int64_t>;

// Product of the dimensions (1 for a scalar). Dimensions are never negative here.
inline size_t ElementCount(const Shape& shape) {
  size_t n = 1;
  for (const int64_t d : shape) n *= static_cast<size_t>(d);
  return n;
}

// "[2, 3, 4]"
std::string ShapeText(const Shape& shape);

// A dense row-major tensor that somebody else owns. `data` may be unaligned.
struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  const std::byte* data = nullptr;

  size_t size() const { return ElementCount(shape); }
  size_t bytes() const { return size() * DTypeSize(dtype); }
};

// A tensor and whatever keeps its bytes alive: a buffer, a mapped file, a message.
struct Tensor {
  TensorView view;
  std::shared_ptr<const void> owner;

  // A new tensor with its own uninitialised buffer; `*data` receives the writable bytes.
  static Tensor Allocate(DType dtype, Shape shape, std::byte** data);
};

// The values as fp32. F32 data that is aligned is returned as it is; everything else is converted
// into
// `*buffer`, which must outlive the span. The dtype must satisfy IsFloat.
std::span<const float> AsFloats(const TensorView& view, std::vector<float>* buffer);

}  // namespace hif8
