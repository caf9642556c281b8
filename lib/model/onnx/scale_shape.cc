#include "lib/model/onnx/scale_shape.h"

#include "lib/model/onnx/const_chain.h"

namespace hif8 {

StoredShapes ShapesFor(const Shape& weight, const TileLayout& layout) {
  if (layout.scale_count() == 1) return {weight, {}, false};
  ScaleAxes wanted = ScaleAxes::None(layout.shape);
  for (size_t i = 0; i < layout.shape.size(); ++i) {
    wanted.scaled[i] = layout.tile[i] != layout.shape[i];
  }
  const std::optional<ScaleAxes> own = Reshaped(wanted, weight);
  StoredShapes shapes{weight, {}, !own};
  const ScaleAxes& axes = own ? *own : wanted;
  shapes.codes = axes.dims;
  for (size_t i = 0; i < axes.dims.size(); ++i) {
    shapes.scales.push_back(axes.scaled[i] ? axes.dims[i] : 1);
  }
  return shapes;
}

bool LayoutFor(const Shape& codes, const Shape& scales, TileLayout* layout) {
  if (ElementCount(scales) == 1) {
    *layout = TileLayout::PerTensor(codes);
    return true;
  }
  if (scales.size() != codes.size()) return false;
  *layout = TileLayout::PerTensor(codes);
  for (size_t i = 0; i < codes.size(); ++i) {
    if (scales[i] != codes[i] && scales[i] != 1) return false;
    if (scales[i] == codes[i]) layout->tile[i] = 1;
  }
  return true;
}

}  // namespace hif8
