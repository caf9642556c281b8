// Integers with zero points, as ONNX's QuantizeLinear and DequantizeLinear define them: a code
// stands for (code - zero point) * scale.
#pragma once

#include <cstdint>
#include <span>

#include "lib/numeric/block_scale.h"

namespace hif8 {

// One scale and one zero point, in units of codes, for each tile.
struct ShiftedScales {
  const TileLayout& layout;
  std::span<const float> scales;
  std::span<const float> zeros;
};

// y[i] = (table[codes[i]] - zero) * scale.
void DecodeShifted(const NumberFormat& format, std::span<const uint8_t> codes,
                   const ShiftedScales& how, std::span<float> y);
// Decodes numbers that stand for themselves; in place.
void DecodeShifted(const ShiftedScales& how, std::span<float> values);
// The codes of the nearest such numbers, ties to even; of what is no number, 0.
struct CodeRange {
  float least, most;
};
void EncodeShifted(std::span<const float> x, const ShiftedScales& how, CodeRange range,
                   std::span<float> codes);
// x rounded to the nearest such number with a code of the format.
void RoundShifted(const NumberFormat& format, std::span<const float> x, const ShiftedScales& how,
                  std::span<float> y);

}  // namespace hif8
