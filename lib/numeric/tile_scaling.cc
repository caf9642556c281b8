#include "lib/numeric/tile_scaling.h"

#include <algorithm>
#include <cmath>

#include "lib/numeric/scale_codes.h"

namespace hif8 {
namespace {

float FiniteAmax(std::span<const float> values) {
  float amax = 0;
  for (const float value : values) {
    if (std::isfinite(value)) amax = std::max(amax, std::fabs(value));
  }
  return amax;
}

}  // namespace

float TileScaling::ScaleOf(float amax, const NumberFormat& format) const {
  if (format.ScalesFollowAmax()) {
    return ScaleValue(format, ScaleCodeFromAmax(format, amax, target, global_scale), global_scale);
  }
  if (!(amax > 0)) return 1;
  const float scale = std::max(amax / target, std::numeric_limits<float>::min());
  return power_of_two ? CeilPowerOfTwo(scale) : scale;
}

TileLayout WeightTiles(const ChannelLayout& channels, TileScales::Tile tile) {
  return TileLayout::Tiles(TileLayout(channels).shape, 2, channels.outer > 1 ? 1 : 3, tile);
}

TileLayout ActivationTiles(const Shape& shape, int input_axis, TileScales::Tile tile) {
  const auto rank = static_cast<int>(shape.size());
  if (rank < 2) {
    return TileLayout::Tiles({1, static_cast<int64_t>(ElementCount(shape))}, 0, 1, tile);
  }
  const auto axis =
      static_cast<size_t>(std::clamp(input_axis < 0 ? input_axis + rank : input_axis, 0, rank - 1));
  return TileLayout::Tiles(shape, axis == 0 ? 1 : axis - 1, axis, tile);
}

std::vector<float> FindScales(const TensorView& tensor, const TileLayout& layout,
                              const NumberFormat& format, const TileScaling& scaling) {
  std::vector<float> scales(layout.scale_count());
  ForEachTile(tensor, layout, [&](size_t index, std::span<const float> values) {
    scales[index] = scaling.ScaleOf(FiniteAmax(values), format);
  });
  return scales;
}

void QuantizeDequantizeDynamic(const NumberFormat& format, const TileScaling& scaling,
                               int input_axis, const Shape& shape, std::span<const float> x,
                               std::span<float> y) {
  const TileLayout layout = ActivationTiles(shape, input_axis, scaling.tile);
  const TensorView view{DType::kF32, shape, reinterpret_cast<const std::byte*>(x.data())};
  const std::vector<float> scales = FindScales(view, layout, format, scaling);
  QuantizeDequantizeTiles(format, x, layout, scales, y);
}

float CeilPowerOfTwo(float x) {
  int exponent = 0;
  const float fraction = std::frexp(x, &exponent);  // in [1/2, 1)
  return fraction == 0.5F ? x : std::ldexp(1.0F, std::min(exponent, 127));
}

}  // namespace hif8
