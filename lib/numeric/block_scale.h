// Scales per tile of a tensor: whole tensors, channels, tokens, blocks and groups in one scheme,
// apart from number formats and from the rules that choose scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "lib/core/tensor.h"
#include "lib/numeric/number_format.h"
#include "lib/numeric/scale_layout.h"

namespace hif8 {

// A dense row-major tensor cut into tiles of edge tile[i] along dimension i; the last tile of a
// dimension may be shorter. Tile (t0, t1, ...) owns the scale at that place of scale_shape().
struct TileLayout {
  Shape shape;
  Shape tile;  // same rank, 1 <= tile[i] <= max(1, shape[i])

  TileLayout() = default;
  TileLayout(Shape dims, Shape edges) : shape(std::move(dims)), tile(std::move(edges)) {}
  // Converts a layout of channels: the same scales in order, over [batch, outer, channels, inner].
  TileLayout(const ChannelLayout& channels);  // NOLINT(google-explicit-constructor)

  Shape scale_shape() const;  // ceil(shape[i] / tile[i])
  size_t scale_count() const { return ElementCount(scale_shape()); }
  size_t size() const { return ElementCount(shape); }

  static TileLayout PerTensor(const Shape& shape);
  // One scale per index of `axis`; each index of the first `batch_dims` dimensions has its own.
  static TileLayout PerChannel(const Shape& shape, size_t axis, size_t batch_dims = 0);
  // Returns one scale per vector along the last dimension.
  static TileLayout PerToken(const Shape& shape);
  // tile.rows x tile.inputs over the dimensions `row_axis` and `input_axis` (the one that the layer
  // sums over), 1 in all others: {1, 32} is a group, {128, 128} a block.
  static TileLayout Tiles(const Shape& shape, size_t row_axis, size_t input_axis,
                          TileScales::Tile tile);

  bool operator==(const TileLayout&) const = default;
};

// Calls visit(scale index, values) once per tile, in parallel, with all values of the tile as fp32
// in memory order. The span is valid during the call only. Tensors without elements have no tiles.
void ForEachTile(const FloatSource& tensor, const TileLayout& layout,
                 const std::function<void(size_t, std::span<const float>)>& visit);

// codes[i] = encode(x[i] / its tile's scale), in parallel; `tensor` is F32, F16, BF16 or F64 (which
// is rounded to fp32 first) with layout.size() elements, `scales` holds layout.scale_count().
void EncodeTiles(const NumberFormat& format, const FloatSource& tensor, const TileLayout& layout,
                 std::span<const float> scales, std::span<uint8_t> codes);
// y[i] = table[codes[i]] * its tile's scale.
void DecodeTiles(const NumberFormat& format, std::span<const uint8_t> codes,
                 const TileLayout& layout, std::span<const float> scales, std::span<float> y);
// Decodes the part of a tensor that begins at element `begin`: codes and y are those of the part,
// scales those of the whole tensor. In the caller's thread.
void DecodePart(const NumberFormat& format, std::span<const uint8_t> codes,
                const TileLayout& layout, std::span<const float> scales, size_t begin,
                std::span<float> y);
// Calls body(at, n, scale) for runs that make up elements [begin, begin + count), in memory order:
// n elements from `at` on and their scales, one for all or one each. In the caller's thread.
void ForEachScaleRun(const TileLayout& layout, std::span<const float> scales, size_t begin,
                     size_t count, const std::function<void(size_t, size_t, ScaleOperand)>& body);
// x[i] / its tile's scale for a part, in the caller's thread.
void DividePart(std::span<const float> x, const TileLayout& layout, std::span<const float> scales,
                size_t begin, std::span<float> y);
// y[i] = its tile's number.
void SpreadTiles(const TileLayout& layout, std::span<const float> numbers, std::span<float> y);
// NumberFormat::QuantizeDequantize with its tile's scale. x and y may be the same span.
void QuantizeDequantizeTiles(const NumberFormat& format, std::span<const float> x,
                             const TileLayout& layout, std::span<const float> scales,
                             std::span<float> y);

// E8M0 (OCP MX v1.0): a code c stands for 2^(c - 127); 255 is NaN and never written here.
float E8M0Value(uint8_t code);
// The code of a scale that is E8M0Value of one.
uint8_t E8M0Code(float scale);
// Returns the code of 2^(floor(log2 amax) - emax), clamped to 2^-127 ... 2^127, with emax the
// exponent of the format's largest value; code 0 when amax is 0. `amax` is finite.
uint8_t E8M0FromAmax(float amax, const NumberFormat& format);
}  // namespace hif8
