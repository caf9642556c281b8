// A tensor of codes in a checkpoint's file, and the values that it stands for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/core/tensor.h"
#include "lib/numeric/block_scale.h"
#include "lib/numeric/number_format.h"

namespace hif8 {

// Decodes codes in parts: value = format's value of the code x its tile's scale, one fp32 product.
class CodedTensor {
 public:
  // `stored`: the file's bytes, one code each, or two where their number says so (rows are padded
  // to whole bytes). `layout`: of the values, with `scales` for its tiles. `flipped`: bits of each
  // packed code that the file has the other way round. `turned`: what is decoded has the last two
  // of the layout's three dimensions exchanged; for packed codes with scales for runs of one row.
  // `format` must outlive the object.
  CodedTensor(Tensor stored, const NumberFormat& format, TileLayout layout,
              std::vector<float> scales, uint8_t flipped = 0, bool turned = false);

  // Writes elements [begin, begin + n) as fp32. Several threads may do so at once.
  void Decode(size_t begin, size_t n, float* values) const;

 private:
  Tensor stored_;
  const NumberFormat& format_;
  TileLayout layout_;
  std::vector<float> scales_;
  uint8_t flipped_;
  bool packed_;
  bool turned_;

  void DecodeTurned(size_t begin, size_t n, float* values) const;
};

}  // namespace hif8
