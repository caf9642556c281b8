#include "lib/model/tokenizer/utf8.h"

#include <cstring>

namespace hif8 {
namespace {

uint8_t Byte(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

// Length of the well-formed character at `i`, or 0.
size_t WellFormedLength(std::string_view text, size_t i) {
  const uint8_t lead = Byte(text, i);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const size_t length = Utf8Length(text[i]);
  if (length > text.size() - i) return 0;
  for (size_t k = 1; k < length; ++k) {
    if ((Byte(text, i + k) & 0xc0) != 0x80) return 0;
  }
  const uint8_t second = Byte(text, i + 1);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool surrogate = lead == 0xed && second > 0x9f;
  const bool above = lead == 0xf4 && second > 0x8f;
  return overlong || surrogate || above ? 0 : length;
}

}  // namespace

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    uint64_t eight = 0;
    if (text.size() - i >= sizeof(eight)) {  // mostly ASCII: eight characters at a time
      std::memcpy(&eight, text.data() + i, sizeof(eight));
      if ((eight & 0x8080808080808080U) == 0) {
        i += sizeof(eight);
        continue;
      }
    }
    const size_t length = WellFormedLength(text, i);
    if (length == 0) return i;
    i += length;
  }
  return std::nullopt;
}

char32_t Utf8Decode(std::string_view text, size_t pos) {
  const size_t length = Utf8Length(text[pos]);
  if (length == 1) return Byte(text, pos);
  char32_t c = Byte(text, pos) & (0x7fU >> length);
  for (size_t k = 1; k < length; ++k) c = c << 6 | (Byte(text, pos + k) & 0x3fU);
  return c;
}

void Utf8Append(char32_t c, std::string* text) {
  const auto tail = [&](int shift) {
    text->push_back(static_cast<char>(0x80 | (c >> shift & 0x3f)));
  };
  if (c < 0x80) {
    text->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    text->push_back(static_cast<char>(0xc0 | c >> 6));
    tail(0);
  } else if (c < 0x10000) {
    text->push_back(static_cast<char>(0xe0 | c >> 12));
    tail(6);
    tail(0);
  } else {
    text->push_back(static_cast<char>(0xf0 | c >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace hif8
