#include "lib/model/onnx/scale_shape.h"

#include "lib/model/onnx/const_chain.h"

namespace hif8 {

StoredShapes ShapesFor(const Shape& weight, const ChannelLayout& layout) {
  if (layout.scale_count() == 1) return {weight, {}, false};
  const ScaleAxes wanted = {
      {static_cast<int64_t>(layout.batch), static_cast<int64_t>(layout.outer),
       static_cast<int64_t>(layout.channels), static_cast<int64_t>(layout.inner)},
      {true, false, true, false}};
  const std::optional<ScaleAxes> own = Reshaped(wanted, weight);
  StoredShapes shapes{weight, {}, !own};
  const ScaleAxes& axes = own ? *own : wanted;
  shapes.codes = axes.dims;
  for (size_t i = 0; i < axes.dims.size(); ++i) {
    shapes.scales.push_back(axes.scaled[i] ? axes.dims[i] : 1);
  }
  return shapes;
}

bool LayoutFor(const Shape& codes, const Shape& scales, ChannelLayout* layout) {
  if (ElementCount(scales) == 1) {
    *layout = ChannelLayout::PerTensor(ElementCount(codes));
    return true;
  }
  if (scales.size() != codes.size()) return false;
  ScaleAxes axes = ScaleAxes::None(codes);
  for (size_t i = 0; i < codes.size(); ++i) {
    if (scales[i] != codes[i] && scales[i] != 1) return false;
    axes.scaled[i] = scales[i] == codes[i];
  }
  const std::optional<ChannelLayout> found = LayoutOf(axes);
  if (!found) return false;
  *layout = *found;
  return true;
}

}  // namespace hif8
