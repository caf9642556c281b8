// Rounding an activation to a format's grid and back while a network stays in floating point.
#pragma once

#include <optional>
#include <span>

#include "lib/core/tensor.h"
#include "lib/numeric/number_format.h"
#include "lib/numeric/tile_scaling.h"

namespace hif8 {

// Describes how one activation is fake-quantized: the value that plan, exporters, runtime and
// comparisons hand on.
struct FakeQuantize {
  const NumberFormat* format = nullptr;  // outlives this value
  float scale = 1;                       // static: of all values
  std::optional<float> clip = {};  // static: values are clipped to +-clip first; NaN stays NaN
  // One scale per tile, found in the data; `scale` and `clip` mean nothing then.
  std::optional<TileScaling> dynamic = {};

  // Writes x fake-quantized to y, which has as many values and may be x's own. `input_axis` is the
  // dimension of `shape` that the layers sum over (negative: counted from the end).
  void Apply(int input_axis, const Shape& shape, std::span<const float> x,
             std::span<float> y) const;
};

}  // namespace hif8
