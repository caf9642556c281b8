// Scales that are found when the data is there: one per tile, from its largest finite magnitude.
// Of weights in formats that prescribe them, and of activations while a model runs ("dynamic").
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "lib/numeric/block_scale.h"
#include "lib/numeric/number_format.h"

namespace hif8 {

// Stands for the whole dimension as an edge of a tile.
inline constexpr size_t kWholeEdge = std::numeric_limits<int64_t>::max();

struct TileScaling {
  TileScales::Tile tile{1, kWholeEdge};
  float target = 1;           // the magnitude that the largest one is mapped to; not of E8M0
  bool power_of_two = false;  // any fp32 scales are rounded up to a power of two
  float global_scale = 1;     // of formats whose scales are codes, see lib/numeric/scale_codes.h

  // Returns amax / target, a normal number, or 1 when amax is 0; of formats whose scales are not
  // any fp32, the scale that they take instead.
  float ScaleOf(float amax, const NumberFormat& format) const;
};

// Tiles of a weight: its outputs are the channels, the layer sums over `inner`, or over `outer`
// where there is such. A channel of several dimensions (a convolution's) is cut as one run.
TileLayout WeightTiles(const ChannelLayout& channels, TileScales::Tile tile);
// Tiles of an activation whose readers sum over `input_axis` (negative: counted from the end). The
// rows of a tile lie along the dimension before it.
TileLayout ActivationTiles(const Shape& shape, int input_axis, TileScales::Tile tile);

// Returns one scale per tile of `layout`; values that are not finite are left out.
std::vector<float> FindScales(const TensorView& tensor, const TileLayout& layout,
                              const NumberFormat& format, const TileScaling& scaling);

// y = the activation x quantized and dequantized, each tile with its own scale; y may be x's own
// values.
void QuantizeDequantizeDynamic(const NumberFormat& format, const TileScaling& scaling,
                               int input_axis, const Shape& shape, std::span<const float> x,
                               std::span<float> y);

// The smallest power of two that is not below x (a normal positive number), at most 2^127.
float CeilPowerOfTwo(float x);

}  // namespace hif8
