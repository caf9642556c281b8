#include "lib/numeric/scale_layout.h"

namespace hif8 {

ChannelLayout ChannelLayout::Axis(const Shape& shape, size_t axis, size_t batch_dims) {
  ChannelLayout layout;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto dim = static_cast<size_t>(shape[i]);
    if (i == axis) {
      layout.channels = dim;
    } else if (i < batch_dims) {
      layout.batch *= dim;
    } else if (i < axis) {
      layout.outer *= dim;
    } else {
      layout.inner *= dim;
    }
  }
  return layout;
}

}  // namespace hif8
