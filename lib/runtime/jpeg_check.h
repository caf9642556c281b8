// What the image decoder takes on trust in a JPEG file. Internal to this module.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace hif8 {

// Throws kModel, naming `where`, for a JPEG file with a Huffman table of more than 256 codes, which
// stb_image writes behind the end of its own. Bytes that are no JPEG file pass: the decoder says
// what is wrong with them.
void CheckHuffmanTables(std::span<const std::byte> bytes, const std::string& where);

}  // namespace hif8
