// Tensors as the modules pass them around: a view of bytes with a type and a shape, and an owner of
// such bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/core/dtype.h"

namespace hif8 {

using Shape = std::vector<int64_t>;

// Returns the product of the dimensions (1 for a scalar). Dimensions are never negative here.
inline size_t ElementCount(const Shape& shape) {
  size_t n = 1;
  for (const int64_t d : shape) n *= static_cast<size_t>(d);
  return n;
}

// Returns "[2, 3, 4]"
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

  // Returns a new tensor with its own uninitialised buffer; `*data` receives the writable bytes.
  static Tensor Allocate(DType dtype, Shape shape, std::byte** data);
};

// The values as fp32. F32 data that is aligned is returned as it is; everything else is converted
// into
// `*buffer`, which must outlive the span. The dtype must satisfy IsFloat.
std::span<const float> AsFloats(const TensorView& view, std::vector<float>* buffer);

// A tensor of floats that is read in pieces, by several threads at once: one in memory, or one
// whose values are made when they are asked for, because all of them at once would be too many.
class FloatSource {
 public:
  // Writes elements [begin, begin + n) as fp32.
  using Make = std::function<void(size_t begin, size_t n, float* values)>;

  // The dtype must satisfy IsFloat; the bytes must outlive the object.
  FloatSource(TensorView tensor)  // NOLINT(google-explicit-constructor)
      : tensor_(std::move(tensor)) {}
  explicit FloatSource(Tensor tensor)
      : tensor_(std::move(tensor.view)), owner_(std::move(tensor.owner)) {}
  FloatSource(Shape shape, Make make)
      : tensor_{DType::kF32, std::move(shape), nullptr}, make_(std::move(make)) {}

  // Without data where values are made.
  const TensorView& tensor() const { return tensor_; }
  size_t size() const { return tensor_.size(); }
  // Returns null where values are made.
  const std::byte* Stored(size_t element) const {
    return make_ ? nullptr : tensor_.data + element * DTypeSize(tensor_.dtype);
  }
  // Elements [begin, begin + n), as AsFloats.
  std::span<const float> Floats(size_t begin, size_t n, std::vector<float>* buffer) const;
  void Read(size_t begin, size_t n, float* values) const;

 private:
  TensorView tensor_;
  std::shared_ptr<const void> owner_;
  Make make_;
};

}  // namespace hif8
