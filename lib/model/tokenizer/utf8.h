// The little of UTF-8 that tokenizing needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hif8 {

// Offset of the first byte that is not part of well-formed UTF-8 (RFC 3629: no overlong forms, no
// surrogates, nothing above U+10FFFF), or nothing when all of `text` is well formed.
std::optional<size_t> FindInvalidUtf8(std::string_view text);

// Returns the bytes of the character that begins with `lead`. The text must be well formed.
inline size_t Utf8Length(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

// Returns the character at `text[pos]`, which must begin one of well-formed text.
char32_t Utf8Decode(std::string_view text, size_t pos);

// Appends a character to `*text`.
void Utf8Append(char32_t c, std::string* text);

}  // namespace hif8
