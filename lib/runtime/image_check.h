// What the image decoder takes on trust in a file. Internal to this module.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace hif8 {

// Throws kModel, naming `where`, for a JPEG file with a Huffman table of more than 256 codes, which
// stb_image writes behind the end of its own, and for a BMP file that ends before its last row,
// which it fills with zeros. Other bytes pass: the decoder says what is wrong with them.
void CheckImage(std::span<const std::byte> bytes, const std::string& where);

}  // namespace hif8
