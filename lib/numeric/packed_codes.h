// Four-bit codes, two a byte: the first of a pair in the low half (compressed-tensors' MXFP4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hif8 {

inline size_t PackedRowBytes(size_t columns) { return (columns + 1) / 2; }

// Packs each row on its own, the last half byte of an odd row zero. `codes` holds rows * columns
// codes below 16, `packed` rows * PackedRowBytes(columns) bytes.
void PackCodes(std::span<const uint8_t> codes, size_t columns, std::span<uint8_t> packed);
// The way back.
void UnpackCodes(std::span<const uint8_t> packed, size_t columns, std::span<uint8_t> codes);

}  // namespace hif8
