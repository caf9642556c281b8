#include "lib/core/tensor.h"

#include <cstdint>

#include "lib/core/error.h"

namespace hif8 {

std::string ShapeText(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

Tensor Tensor::Allocate(DType dtype, Shape shape, std::byte** data) {
  size_t bytes = DTypeSize(dtype);
  bool fits = true;
  for (const int64_t d : shape) {
    fits = fits && d >= 0 && !__builtin_mul_overflow(bytes, static_cast<size_t>(d), &bytes);
  }
  if (!fits || bytes > static_cast<size_t>(PTRDIFF_MAX)) {
    throw EnvironmentError("a tensor of shape " + ShapeText(shape) + " is larger than any memory",
                           "look at the shapes that the model and the data declare");
  }
  Tensor tensor;
  tensor.view.dtype = dtype;
  tensor.view.shape = std::move(shape);
  // make_shared_for_overwrite: large buffers are written once by the caller, not zeroed first.
  auto buffer = std::make_shared_for_overwrite<std::byte[]>(bytes);
  *data = buffer.get();
  tensor.view.data = buffer.get();
  tensor.owner = std::move(buffer);
  return tensor;
}

std::span<const float> AsFloats(const TensorView& view, std::vector<float>* buffer) {
  const size_t n = view.size();
  if (view.dtype == DType::kF32 && reinterpret_cast<uintptr_t>(view.data) % alignof(float) == 0) {
    return {reinterpret_cast<const float*>(view.data), n};
  }
  buffer->resize(n);
  ConvertToFloat(view.dtype, view.data, n, buffer->data());
  return *buffer;
}

std::span<const float> FloatSource::Floats(size_t begin, size_t n,
                                           std::vector<float>* buffer) const {
  if (!make_) {
    return AsFloats({tensor_.dtype, {static_cast<int64_t>(n)}, Stored(begin)}, buffer);
  }
  buffer->resize(n);
  make_(begin, n, buffer->data());
  return *buffer;
}

void FloatSource::Read(size_t begin, size_t n, float* values) const {
  if (make_) return make_(begin, n, values);
  ConvertToFloat(tensor_.dtype, Stored(begin), n, values);
}

}  // namespace hif8
