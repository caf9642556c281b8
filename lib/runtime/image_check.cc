#include "lib/runtime/image_check.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "lib/core/error.h"

namespace hif8 {
namespace {

// Markers of ITU-T T.81, each behind a byte 0xff.
constexpr int kStart = 0xd8;
constexpr int kEnd = 0xd9;
constexpr int kHuffmanTables = 0xc4;

constexpr size_t kLengths = 16;     // codes have 1 to 16 bits
constexpr size_t kMostCodes = 256;  // symbols are bytes

class Segments {
 public:
  explicit Segments(std::span<const std::byte> bytes) : rest_(bytes) {}

  // The next marker; -1 at the end. Skips image data, in which 0xff is followed by zero or a
  // restart marker.
  int NextMarker() {
    while (rest_.size() >= 2) {
      const int marker = At(0) == 0xff ? At(1) : 0;
      const bool none = marker == 0 || marker == 0xff || (marker >= 0xd0 && marker <= 0xd7);
      Skip(none ? 1 : 2);
      if (!none) return marker;
    }
    return -1;
  }

  // What follows a marker: its segment's length, itself included, and all bytes from there on.
  size_t Length() const { return rest_.size() < 2 ? 2 : static_cast<size_t>(At(0) << 8 | At(1)); }
  std::span<const std::byte> rest() const { return rest_; }
  void Skip(size_t n) { rest_ = rest_.subspan(std::min(n, rest_.size())); }

 private:
  int At(size_t i) const { return std::to_integer<int>(rest_[i]); }

  std::span<const std::byte> rest_;
};

// `rest` begins with the segment of that length. The decoder reads a table whole even where its
// segment or the file ends earlier.
void CheckTables(std::span<const std::byte> rest, size_t length, const std::string& where) {
  for (size_t at = 2; at < length && rest.size() > at + 1;) {
    size_t codes = 0;
    for (const std::byte count : rest.subspan(at + 1, std::min(kLengths, rest.size() - at - 1))) {
      codes += std::to_integer<size_t>(count);
    }
    if (codes > kMostCodes) {
      throw ModelError("a Huffman table of a JPEG image has at most 256 codes, found one of " +
                           std::to_string(codes),
                       "the file is damaged; save the image again", where);
    }
    at += 1 + kLengths + codes;
  }
}

void CheckJpeg(std::span<const std::byte> bytes, const std::string& where) {
  Segments segments(bytes);
  if (bytes.size() < 2 || std::to_integer<int>(bytes[0]) != 0xff || segments.NextMarker() != kStart)
    return;
  for (int marker = segments.NextMarker(); marker >= 0 && marker != kEnd;
       marker = segments.NextMarker()) {
    if (marker == kHuffmanTables) CheckTables(segments.rest(), segments.Length(), where);
    segments.Skip(segments.Length());
  }
}

uint32_t LittleEndian(std::span<const std::byte> bytes, size_t at, size_t count) {
  uint32_t value = 0;
  for (size_t i = 0; i < count; ++i) value |= std::to_integer<uint32_t>(bytes[at + i]) << (8 * i);
  return value;
}

// A file header of 14 bytes, then one of the image: of 12 bytes with sizes of 16 bits, or longer
// with sizes of 32, of which the height is negative where rows go down. Rows are whole words.
void CheckBitmap(std::span<const std::byte> bytes, const std::string& where) {
  constexpr size_t kHeaders = 30;
  constexpr uint32_t kOldHeader = 12;
  if (bytes.size() < kHeaders || bytes[0] != std::byte{'B'} || bytes[1] != std::byte{'M'}) return;
  const bool old = LittleEndian(bytes, 14, 4) == kOldHeader;
  const uint64_t width = old ? LittleEndian(bytes, 18, 2) : LittleEndian(bytes, 18, 4);
  const auto signed_height = static_cast<int32_t>(LittleEndian(bytes, 22, 4));
  const uint64_t height =
      old ? LittleEndian(bytes, 20, 2)
          : static_cast<uint64_t>(std::abs(static_cast<int64_t>(signed_height)));
  const uint64_t bits = width * LittleEndian(bytes, old ? 24 : 28, 2);
  if (height == 0) return;
  const uint64_t end =
      LittleEndian(bytes, 10, 4) + (bits + 31) / 32 * 4 * (height - 1) + (bits + 7) / 8;
  if (end <= bytes.size()) return;
  throw ModelError("a BMP image of " + std::to_string(width) + "x" + std::to_string(height) +
                       " pixels ends at byte " + std::to_string(end) + ", found " +
                       std::to_string(bytes.size()) + " bytes",
                   "the file is truncated or damaged; save the image again", where);
}

}  // namespace

void CheckImage(std::span<const std::byte> bytes, const std::string& where) {
  CheckJpeg(bytes, where);
  CheckBitmap(bytes, where);
}

}  // namespace hif8
