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
    for (size_t i = 0; i < columns; ++i) {
      codes[row + i] = packed[in + i / 2] >> (i % 2 * 4) & 0x0F;
    }
  }
}

}  // namespace hif8
