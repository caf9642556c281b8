#include "lib/numeric/block_scale.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lib/core/parallel.h"

namespace hif8 {
namespace {

// The same tiles with as few dimensions as possible: [..., rows, columns], where neighbours are
// merged that are cut everywhere or nowhere. The order of elements and of scales stays.
struct Merged {
  std::vector<size_t> shape;
  std::vector<size_t> tile;

  explicit Merged(const TileLayout& layout) {
    for (size_t i = 0; i < layout.shape.size(); ++i) {
      const auto dim = static_cast<size_t>(layout.shape[i]);
      const auto edge = static_cast<size_t>(layout.tile[i]);
      if (dim == 1) continue;
      const bool whole = edge == dim;
      const bool singles = edge == 1 && !tile.empty() && tile.back() == 1;
      if (!shape.empty() && (whole || singles)) {
        shape.back() *= dim;
        tile.back() *= edge;
      } else {
        shape.push_back(dim);
        tile.push_back(edge);
      }
    }
    if (shape.empty()) {
      shape.push_back(1);
      tile.push_back(1);
    }
  }

  size_t columns() const { return shape.back(); }
  size_t column_tile() const { return tile.back(); }
  size_t column_tiles() const { return (columns() + column_tile() - 1) / column_tile(); }
  size_t outer_dims() const { return shape.size() - 1; }
};

// Tiles of all dimensions but the last: how many, and which rows one of them covers.
class OuterTiles {
 public:
  explicit OuterTiles(const Merged& merged) : merged_(merged) {
    for (size_t i = 0; i < merged.outer_dims(); ++i) {
      counts_.push_back((merged.shape[i] + merged.tile[i] - 1) / merged.tile[i]);
      count_ *= counts_.back();
      rows_ *= merged.shape[i];
    }
  }

  size_t count() const { return count_; }
  size_t rows() const { return rows_; }

  // The rows of outer tile `index`, in memory order.
  std::vector<size_t> RowsOf(size_t index) const {
    std::vector<size_t> rows{0};
    std::vector<size_t> tiles(counts_.size());
    for (size_t i = counts_.size(); i-- > 0; index /= counts_[i]) tiles[i] = index % counts_[i];
    for (size_t i = 0; i < counts_.size(); ++i) {
      const size_t begin = tiles[i] * merged_.tile[i];
      const size_t end = std::min(begin + merged_.tile[i], merged_.shape[i]);
      std::vector<size_t> next;
      next.reserve(rows.size() * (end - begin));
      for (const size_t row : rows) {
        for (size_t at = begin; at < end; ++at) next.push_back(row * merged_.shape[i] + at);
      }
      rows = std::move(next);
    }
    return rows;
  }

  // The outer tile that a row belongs to.
  size_t TileOf(size_t row) const {
    size_t index = 0;
    size_t weight = 1;
    for (size_t i = counts_.size(); i-- > 0;) {
      index += row % merged_.shape[i] / merged_.tile[i] * weight;
      weight *= counts_[i];
      row /= merged_.shape[i];
    }
    return index;
  }

 private:
  const Merged& merged_;
  std::vector<size_t> counts_;
  size_t count_ = 1;
  size_t rows_ = 1;
};

// Values that a task holds as fp32: about the L2 cache.
constexpr size_t kTaskValues = size_t{1} << 17;

using Visit = std::function<void(size_t, std::span<const float>)>;

// Tiles that are one run of memory each: one row, or part of a row.
void VisitRuns(const FloatSource& tensor, const Merged& merged, size_t rows, const Visit& visit) {
  const size_t tiles = merged.column_tiles();
  const size_t total = rows * tiles;
  const size_t per_task = std::max<size_t>(1, kTaskValues / merged.column_tile());
  ParallelFor((total + per_task - 1) / per_task, [&](size_t task) {
    std::vector<float> buffer;
    const size_t end = std::min(total, (task + 1) * per_task);
    for (size_t index = task * per_task; index < end; ++index) {
      const size_t column = index % tiles * merged.column_tile();
      const size_t n = std::min(merged.column_tile(), merged.columns() - column);
      visit(index, tensor.Floats(index / tiles * merged.columns() + column, n, &buffer));
    }
  });
}

// Tiles [first, first + count) of the columns, over `rows`: read row by row, then one at a time
// gathered.
void VisitGathered(const FloatSource& tensor, const Merged& merged, const std::vector<size_t>& rows,
                   size_t outer, size_t first, size_t count, const Visit& visit) {
  const size_t begin = first * merged.column_tile();
  const size_t width = std::min(count * merged.column_tile(), merged.columns() - begin);
  std::vector<float> values(rows.size() * width);
  for (size_t r = 0; r < rows.size(); ++r) {
    tensor.Read(rows[r] * merged.columns() + begin, width, values.data() + r * width);
  }
  std::vector<float> tile;
  for (size_t t = 0; t < count; ++t) {
    const size_t from = t * merged.column_tile();
    const size_t n = std::min(merged.column_tile(), width - from);
    tile.resize(rows.size() * n);
    for (size_t r = 0; r < rows.size(); ++r) {
      std::copy_n(values.data() + r * width + from, n, tile.data() + r * n);
    }
    visit(outer * merged.column_tiles() + first + t, tile);
  }
}

// A layout made ready for looking up the scales of parts of the tensor.
class ScaleLookup {
 public:
  ScaleLookup(const TileLayout& layout, std::span<const float> scales)
      : merged_(layout), outer_(merged_), scales_(scales) {}

  // Calls body(begin, n, scale) for runs that make up elements [begin, end), in memory order: n
  // elements from `begin` on and their scales, one for all or one each.
  template <typename Body>
  void ForEachRun(size_t begin, size_t end, const Body& body) const {
    constexpr size_t kLongTile = 1024;  // from here on a call for every tile costs little
    const size_t columns = merged_.columns();
    const size_t edge = merged_.column_tile();
    std::vector<float> expanded;
    while (begin < end) {
      const size_t row = begin / columns;
      const size_t c = begin % columns;
      const float* scales = scales_.data() + outer_.TileOf(row) * merged_.column_tiles();
      size_t n = std::min(end - begin, columns - c);
      if (edge == 1) {
        body(begin, n, ScaleOperand::PerValue(scales + c));
      } else if (edge < kLongTile && c / edge != (c + n - 1) / edge) {
        expanded.resize(n);
        for (size_t i = 0; i < n;) {
          const size_t tile = (c + i) / edge;
          const size_t stop = std::min(n, (tile + 1) * edge - c);
          std::fill(expanded.data() + i, expanded.data() + stop, scales[tile]);
          i = stop;
        }
        body(begin, n, ScaleOperand::PerValue(expanded.data()));
      } else {
        n = std::min(n, (c / edge + 1) * edge - c);
        body(begin, n, ScaleOperand::One(scales[c / edge]));
      }
      begin += n;
    }
  }

 private:
  Merged merged_;
  OuterTiles outer_;
  std::span<const float> scales_;
};

// The same for the whole tensor, in parallel pieces.
template <typename Body>
void ForEachRunInParallel(const TileLayout& layout, std::span<const float> scales,
                          const Body& body) {
  constexpr size_t kPiece = size_t{1} << 14;
  const size_t size = layout.size();
  if (size == 0) return;
  const ScaleLookup lookup(layout, scales);
  ParallelFor((size + kPiece - 1) / kPiece, [&](size_t piece) {
    lookup.ForEachRun(piece * kPiece, std::min(size, (piece + 1) * kPiece), body);
  });
}

}  // namespace

Shape TileLayout::scale_shape() const {
  Shape result(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    result[i] = shape[i] / tile[i] + (shape[i] % tile[i] != 0 ? 1 : 0);
  }
  return result;
}

TileLayout TileLayout::PerTensor(const Shape& shape) {
  TileLayout layout{shape, shape};
  for (int64_t& edge : layout.tile) edge = std::max<int64_t>(edge, 1);
  return layout;
}

TileLayout TileLayout::PerChannel(const Shape& shape, size_t axis, size_t batch_dims) {
  TileLayout layout = PerTensor(shape);
  layout.tile[axis] = 1;
  for (size_t i = 0; i < std::min(batch_dims, shape.size()); ++i) layout.tile[i] = 1;
  return layout;
}

TileLayout TileLayout::PerToken(const Shape& shape) {
  TileLayout layout = PerTensor(shape);
  for (size_t i = 0; i + 1 < shape.size(); ++i) layout.tile[i] = 1;
  return layout;
}

TileLayout TileLayout::Tiles(const Shape& shape, size_t row_axis, size_t input_axis,
                             TileScales::Tile tile) {
  TileLayout layout{shape, Shape(shape.size(), 1)};
  const auto edge = [&](size_t axis, size_t wanted) {
    return std::clamp<int64_t>(static_cast<int64_t>(wanted), 1, std::max<int64_t>(shape[axis], 1));
  };
  layout.tile[row_axis] = edge(row_axis, tile.rows);
  layout.tile[input_axis] = edge(input_axis, tile.inputs);
  return layout;
}

TileLayout::TileLayout(const ChannelLayout& channels) {
  const auto dim = [](size_t n) { return static_cast<int64_t>(n); };
  *this = PerTensor(
      {dim(channels.batch), dim(channels.outer), dim(channels.channels), dim(channels.inner)});
  tile[0] = 1;
  tile[2] = 1;
}

void ForEachTile(const FloatSource& tensor, const TileLayout& layout, const Visit& visit) {
  if (layout.size() == 0) return;
  const Merged merged(layout);
  const OuterTiles outer(merged);
  if (outer.count() == outer.rows()) {
    VisitRuns(tensor, merged, outer.rows(), visit);
    return;
  }
  // Wide enough that a cache line of the tensor is not read for one value only.
  const size_t rows = outer.rows() / outer.count() + 1;
  const size_t at_least = std::max<size_t>(1, 16 / merged.column_tile());
  const size_t together = std::clamp<size_t>(kTaskValues / (rows * merged.column_tile()), at_least,
                                             std::max(at_least, merged.column_tiles()));
  const size_t parts = (merged.column_tiles() + together - 1) / together;
  ParallelFor(outer.count() * parts, [&](size_t task) {
    const size_t first = task % parts * together;
    const size_t count = std::min(together, merged.column_tiles() - first);
    VisitGathered(tensor, merged, outer.RowsOf(task / parts), task / parts, first, count, visit);
  });
}

void EncodeTiles(const NumberFormat& format, const FloatSource& tensor, const TileLayout& layout,
                 std::span<const float> scales, std::span<uint8_t> codes) {
  const DType dtype = tensor.tensor().dtype;
  ForEachRunInParallel(layout, scales, [&](size_t begin, size_t n, ScaleOperand scale) {
    const std::byte* x = tensor.Stored(begin);
    if (x != nullptr && dtype != DType::kF64) {
      format.Encode(dtype, x, scale, codes.subspan(begin, n));
      return;
    }
    std::vector<float> buffer;
    const std::span<const float> values = tensor.Floats(begin, n, &buffer);
    format.Encode(DType::kF32, reinterpret_cast<const std::byte*>(values.data()), scale,
                  codes.subspan(begin, n));
  });
}

void DecodeTiles(const NumberFormat& format, std::span<const uint8_t> codes,
                 const TileLayout& layout, std::span<const float> scales, std::span<float> y) {
  ForEachRunInParallel(layout, scales, [&](size_t begin, size_t n, ScaleOperand scale) {
    format.Decode(codes.subspan(begin, n), scale, y.subspan(begin, n));
  });
}

void ForEachScaleRun(const TileLayout& layout, std::span<const float> scales, size_t begin,
                     size_t count, const std::function<void(size_t, size_t, ScaleOperand)>& body) {
  ScaleLookup(layout, scales).ForEachRun(begin, begin + count, body);
}

void DecodePart(const NumberFormat& format, std::span<const uint8_t> codes,
                const TileLayout& layout, std::span<const float> scales, size_t begin,
                std::span<float> y) {
  ForEachScaleRun(layout, scales, begin, y.size(), [&](size_t at, size_t n, ScaleOperand scale) {
    format.Decode(codes.subspan(at - begin, n), scale, y.subspan(at - begin, n));
  });
}

void DividePart(std::span<const float> x, const TileLayout& layout, std::span<const float> scales,
                size_t begin, std::span<float> y) {
  ForEachScaleRun(layout, scales, begin, y.size(), [&](size_t at, size_t n, ScaleOperand scale) {
    for (size_t i = 0; i < n; ++i) {
      y[at - begin + i] = x[at - begin + i] / scale.values[scale.per_value ? i : 0];
    }
  });
}

void SpreadTiles(const TileLayout& layout, std::span<const float> numbers, std::span<float> y) {
  ForEachRunInParallel(layout, numbers, [&](size_t begin, size_t n, ScaleOperand number) {
    for (size_t i = 0; i < n; ++i) y[begin + i] = number.values[number.per_value ? i : 0];
  });
}

void QuantizeDequantizeTiles(const NumberFormat& format, std::span<const float> x,
                             const TileLayout& layout, std::span<const float> scales,
                             std::span<float> y) {
  ForEachRunInParallel(layout, scales, [&](size_t begin, size_t n, ScaleOperand scale) {
    format.QuantizeDequantize(x.subspan(begin, n), scale, y.subspan(begin, n));
  });
}

float E8M0Value(uint8_t code) {
  if (code == 0) return 0x1p-127F;
  if (code == 255) return std::bit_cast<float>(0x7FC00000U);
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}

uint8_t E8M0Code(float scale) { return static_cast<uint8_t>(std::ilogb(scale) + 127); }

uint8_t E8M0FromAmax(float amax, const NumberFormat& format) {
  if (amax <= 0) return 0;
  const int exponent = std::ilogb(amax) - std::ilogb(format.MaxFinite());
  return static_cast<uint8_t>(std::clamp(exponent, -127, 127) + 127);
}

}  // namespace hif8
