// Pixels of jpg, png and bmp files. Internal to this module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hif8 {

struct ImageSize {
  int64_t width = 0;
  int64_t height = 0;
};

// Reads the size from the header, whatever the name of the file. Throws kModel, naming `where`, for
// bytes that are no image.
ImageSize ReadImageSize(std::span<const std::byte> file, const std::string& where);

// Returns the bytes per pixel that decoding takes at most, the result included.
int64_t DecodedBytesPerPixel(int64_t channels);

// Decodes to rows of pixels of one channel (grey) or three (red, green, blue), top row first. An
// alpha channel is dropped, 16 bits are cut to 8, and no gamma is applied. `size` is what
// ReadImageSize() said. Throws kModel, naming `where`, for a damaged or truncated file.
std::vector<uint8_t> DecodeImage(std::span<const std::byte> file, ImageSize size, int64_t channels,
                                 const std::string& where);

}  // namespace hif8
