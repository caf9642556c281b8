// How codes and scales of a layout are stored so that they broadcast. Internal to this folder.
#pragma once

#include "lib/core/tensor.h"
#include "lib/numeric/block_scale.h"

namespace hif8 {

struct StoredShapes {
  Shape codes;
  Shape scales;
  bool reshape = false;  // codes are stored under other dimensions than the weight's
};

// The weight's own dimensions where the layout follows them, else those of the layout.
StoredShapes ShapesFor(const Shape& weight, const TileLayout& layout);
// The way back; false when the scales do not broadcast to the codes as a layout describes.
bool LayoutFor(const Shape& codes, const Shape& scales, TileLayout* layout);

}  // namespace hif8
