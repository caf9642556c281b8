#include "lib/model/safetensors/coded_tensor.h"

#include <algorithm>
#include <span>
#include <utility>

#include "lib/numeric/packed_codes.h"

namespace hif8 {

CodedTensor::CodedTensor(Tensor stored, const NumberFormat& format, TileLayout layout,
                         std::vector<float> scales, uint8_t flipped, bool turned)
    : stored_(std::move(stored)),
      format_(format),
      layout_(std::move(layout)),
      scales_(std::move(scales)),
      flipped_(flipped),
      packed_(stored_.view.bytes() != layout_.size()),
      turned_(turned) {}

void CodedTensor::Decode(size_t begin, size_t n, float* values) const {
  if (n == 0) return;
  if (turned_) return DecodeTurned(begin, n, values);
  const auto* bytes = reinterpret_cast<const uint8_t*>(stored_.view.data);
  if (!packed_) {
    return DecodePart(format_, {bytes + begin, n}, layout_, scales_, begin, {values, n});
  }
  const auto columns = static_cast<size_t>(layout_.shape.back());
  const size_t width = PackedRowBytes(columns);
  const size_t first = begin / columns;
  const size_t rows = (begin + n - 1) / columns + 1 - first;
  std::vector<uint8_t> codes(rows * columns);
  UnpackCodes({bytes + first * width, rows * width}, columns, codes);
  if (flipped_ != 0) {
    for (uint8_t& code : codes) code ^= flipped_;
  }
  DecodePart(format_, std::span<const uint8_t>(codes).subspan(begin - first * columns, n), layout_,
             scales_, begin, {values, n});
}

// Element (e, i, o) is code i of row (e, o). A few i at a time are within one line of the cache in
// each row.
void CodedTensor::DecodeTurned(size_t begin, size_t n, float* values) const {
  const auto outputs = static_cast<size_t>(layout_.shape[1]);
  const auto inputs = static_cast<size_t>(layout_.shape[2]);
  const auto group = static_cast<size_t>(layout_.tile[2]);
  const size_t groups = static_cast<size_t>(layout_.scale_shape()[2]);
  const size_t width = PackedRowBytes(inputs);
  const auto* bytes = reinterpret_cast<const uint8_t*>(stored_.view.data);
  const std::span<const float> table = format_.DecodeTable();
  const auto value = [&](size_t row, size_t i) {
    const int code = bytes[row * width + i / 2] >> (i % 2 * 4) & 15;
    return table[static_cast<size_t>(code)] * scales_[row * groups + i / group];
  };
  constexpr size_t kMostRows = 64;
  for (size_t at = begin; at < begin + n;) {
    const size_t expert = at / (inputs * outputs);
    const size_t i = at / outputs % inputs;
    const size_t o = at % outputs;
    // A part of a row, or whole rows.
    const size_t left = begin + n - at;
    const bool whole = o == 0 && left >= outputs;
    const size_t rows = whole ? std::min({left / outputs, inputs - i, kMostRows}) : 1;
    const size_t columns = whole ? outputs : std::min(left, outputs - o);
    float* const to = values + (at - begin);
    for (size_t c = 0; c < columns; ++c) {
      const size_t row = expert * outputs + o + c;
      for (size_t r = 0; r < rows; ++r) to[r * columns + c] = value(row, i + r);
    }
    at += rows * columns;
  }
}

}  // namespace hif8
