// How codes and scales of a layout are stored so that they broadcast. Internal to this folder.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "lib/core/tensor.h"
#include "lib/numeric/block_scale.h"

namespace hif8 {

struct StoredShapes {
  Shape codes;
  Shape scales;
  bool reshape = false;  // codes are stored under other dimensions than the weight's
  // Dimensions of the codes along which every `edge` elements share a scale: scales do not
  // broadcast there, each element's has to be looked up. `elements` is even for packed codes.
  struct Spread {
    int64_t axis;
    int64_t elements;
    int64_t edge;
  };
  std::vector<Spread> spreads;
};

// The weight's own dimensions where the layout follows them, else those of the layout. `packed`:
// two codes a byte along the last dimension, for which every element's scale is looked up.
StoredShapes ShapesFor(const Shape& weight, const TileLayout& layout, bool packed);
// Finds the layout of stored scales; false when they do not fit the codes as a layout describes.
// `codes` is the shape of unpacked codes; `axis`: the dimension of scales that are a plain list;
// `edges`: how many elements share a scale, by dimension, where it is neither one nor all.
bool LayoutFor(const Shape& codes, const Shape& scales, std::optional<int64_t> axis,
               const std::map<int64_t, int64_t>& edges, TileLayout* layout);

}  // namespace hif8
