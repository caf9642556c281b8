#include "lib/numeric/packed_codes.h"

namespace hif8 {

void PackCodes(std::span<const uint8_t> codes, size_t columns, std::span<uint8_t> packed) {
  size_t out = 0;
  for (size_t row = 0; row < codes.size(); row += columns) {
    for (size_t i = 0; i < columns; i += 2) {
      const unsigned high = i + 1 < columns ? codes[row + i + 1] : 0U;
      packed[out++] = static_cast<uint8_t>(codes[row + i] | high << 4);
    }
  }
}

void UnpackCodes(std::span<const uint8_t> packed, size_t columns, std::span<uint8_t> codes) {
  const size_t bytes = PackedRowBytes(columns);
  size_t in = 0;
  for (size_t row = 0; row < codes.size(); row += columns, in += bytes) {
    // Whole bytes first, in a loop that compilers make vectors of.
    const uint8_t* const from = packed.data() + in;
    uint8_t* const to = codes.data() + row;
    for (size_t i = 0; i < columns / 2; ++i) {
      to[2 * i] = from[i] & 0x0F;
      to[2 * i + 1] = static_cast<uint8_t>(from[i] >> 4);
    }
    if (columns % 2 != 0) to[columns - 1] = from[bytes - 1] & 0x0F;
  }
}

}  // namespace hif8
