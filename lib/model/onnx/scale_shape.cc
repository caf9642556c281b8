#include "lib/model/onnx/scale_shape.h"

#include <algorithm>

#include "lib/model/onnx/const_chain.h"

namespace hif8 {

namespace {

// Tiles that are neither single elements nor whole dimensions: the layout's own dimensions, those
// of one element aside.
StoredShapes TiledShapes(const Shape& weight, const TileLayout& layout, bool packed) {
  StoredShapes shapes;
  for (size_t i = 0; i < layout.shape.size(); ++i) {
    const int64_t dim = layout.shape[i];
    const int64_t edge = layout.tile[i];
    if (dim == 1) continue;
    const auto axis = static_cast<int64_t>(shapes.codes.size());
    shapes.codes.push_back(dim);
    shapes.scales.push_back((dim + edge - 1) / edge);
    if (edge > 1 && (packed || edge < dim)) shapes.spreads.push_back({axis, dim, edge});
  }
  if (shapes.codes.empty()) {
    shapes.codes = shapes.scales = {1};
    if (packed) shapes.spreads.push_back({0, 1, 1});
  }
  if (packed && shapes.codes.back() % 2 != 0) {
    const auto last = static_cast<int64_t>(shapes.codes.size()) - 1;
    if (shapes.spreads.empty() || shapes.spreads.back().axis != last) {
      shapes.spreads.push_back({last, shapes.codes.back(), 1});
    }
    ++shapes.spreads.back().elements;
  }
  shapes.reshape = shapes.codes != weight;
  return shapes;
}

}  // namespace

StoredShapes ShapesFor(const Shape& weight, const TileLayout& layout, bool packed) {
  const auto is_plain = [&](size_t i) {
    return layout.tile[i] == 1 || layout.tile[i] == layout.shape[i];
  };
  bool plain = !packed;
  for (size_t i = 0; i < layout.shape.size(); ++i) plain &= is_plain(i);
  if (!plain) return TiledShapes(weight, layout, packed);
  if (layout.scale_count() == 1) return {weight, {}, false, {}};
  ScaleAxes wanted = ScaleAxes::None(layout.shape);
  for (size_t i = 0; i < layout.shape.size(); ++i) {
    wanted.scaled[i] = layout.tile[i] != layout.shape[i];
  }
  const std::optional<ScaleAxes> own = Reshaped(wanted, weight);
  StoredShapes shapes{weight, {}, !own, {}};
  const ScaleAxes& axes = own ? *own : wanted;
  shapes.codes = axes.dims;
  for (size_t i = 0; i < axes.dims.size(); ++i) {
    shapes.scales.push_back(axes.scaled[i] ? axes.dims[i] : 1);
  }
  return shapes;
}

bool LayoutFor(const Shape& codes, const Shape& scales, std::optional<int64_t> axis,
               const std::map<int64_t, int64_t>& edges, TileLayout* layout) {
  *layout = TileLayout::PerTensor(codes);
  if (ElementCount(scales) == 1 && edges.empty()) return true;
  Shape wanted = scales;
  if (axis && scales.size() == 1 && *axis >= 0 && *axis < static_cast<int64_t>(codes.size())) {
    wanted.assign(codes.size(), 1);
    wanted[static_cast<size_t>(*axis)] = scales[0];
  }
  if (wanted.size() != codes.size()) return false;
  for (size_t i = 0; i < codes.size(); ++i) {
    const auto edge = edges.find(static_cast<int64_t>(i));
    if (edge != edges.end()) {
      layout->tile[i] = std::clamp<int64_t>(edge->second, 1, layout->tile[i]);
    } else if (wanted[i] == codes[i]) {
      layout->tile[i] = 1;
    }
  }
  return layout->scale_shape() == wanted;
}

}  // namespace hif8
