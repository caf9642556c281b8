// Numbers as text that reads back to the same value.
#pragma once

#include <array>
#include <charconv>
#include <string>

namespace hif8 {

// The shortest such text, independent of the locale: 0.1f is "0.1". `value` is float or double.
template <typename T>
std::string ShortestText(T value) {
  std::array<char, 32> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), result.ptr};
}

}  // namespace hif8
