#include "lib/runtime/jpeg_check.h"

#include <algorithm>
#include <cstdint>

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

}  // namespace

void CheckHuffmanTables(std::span<const std::byte> bytes, const std::string& where) {
  Segments segments(bytes);
  if (bytes.size() < 2 || std::to_integer<int>(bytes[0]) != 0xff || segments.NextMarker() != kStart)
    return;
  for (int marker = segments.NextMarker(); marker >= 0 && marker != kEnd;
       marker = segments.NextMarker()) {
    if (marker == kHuffmanTables) CheckTables(segments.rest(), segments.Length(), where);
    segments.Skip(segments.Length());
  }
}

}  // namespace hif8
