// A plain HiF8 encoder as one writes it from the format's table: one value at a time, field by
// field. What the project's encoder is compared with; it shares no code with it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace hif8 {

// Saturating; x is finite.
inline uint8_t PlainHif8(float x) {
  const double a = std::fabs(static_cast<double>(x));
  if (a < std::ldexp(1.0, -23)) return 0;
  const auto bits_of = [](int exponent) {
    const int e = std::abs(exponent);
    return e <= 3 ? 3 : e <= 7 ? 2 : exponent >= -15 ? 1 : 0;
  };
  int exponent = static_cast<int>(std::floor(std::log2(a)));
  if (exponent < -22) exponent = -22;
  const double step = std::ldexp(1.0, exponent - bits_of(exponent));
  double y = std::floor(a / step + 0.5) * step;  // ties away from zero
  if (y > 32768) y = 32768;
  if (y == 0) y = std::ldexp(1.0, -22);
  exponent = static_cast<int>(std::floor(std::log2(y)));
  unsigned code = x < 0 ? 1 : 0;
  const auto append = [&](unsigned value, int count) {
    for (int bit = count - 1; bit >= 0; --bit) code = code << 1 | (value >> bit & 1U);
  };
  if (exponent < -15) {
    append(0, 4);
    append(static_cast<unsigned>(exponent + 23), 3);
    return static_cast<uint8_t>(code);
  }
  const auto magnitude = static_cast<unsigned>(std::abs(exponent));
  const int exponent_bits = magnitude == 0  ? 0
                            : magnitude < 2 ? 1
                            : magnitude < 4 ? 2
                            : magnitude < 8 ? 3
                                            : 4;
  constexpr unsigned kDots[] = {1, 1, 1, 2, 3};
  constexpr int kDotBits[] = {4, 3, 2, 2, 2};
  append(kDots[exponent_bits], kDotBits[exponent_bits]);
  if (exponent_bits > 0) {
    append(exponent < 0 ? 1 : 0, 1);
    append(magnitude - (1U << (exponent_bits - 1)), exponent_bits - 1);
  }
  const int mantissa_bits = 7 - kDotBits[exponent_bits] - exponent_bits;
  const double fraction = y / std::ldexp(1.0, exponent) - 1;
  append(static_cast<unsigned>(std::ldexp(fraction, mantissa_bits)), mantissa_bits);
  return static_cast<uint8_t>(code);
}

}  // namespace hif8
