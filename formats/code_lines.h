// What the vector path knows of a format: its codes as straight lines over the bits of a number.
//
// Number the non-negative finite codes by magnitude: rank 0 is zero, rank 1 the smallest positive
// value, and so on. In a binade with m mantissa bits the rank grows by one every 2^(7 - m) steps of
// the number's bits when cut to bf16, so that 128 * rank is a line of slope 2^m over these bits.
// Where m grows with the exponent (denormals) the lines together are convex, that is their maximum;
// where it falls (the upper half of a tapered format) they are concave, their minimum. So a handful
// of saturating 16-bit operations round any number, with no table and no branch. Rounding to the
// even rank needs to know whether anything was cut off; the lowest bit is made 1 then ("sticky").
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "lib/numeric/number_format.h"

namespace hif8 {

enum class Ties { kAway, kEven };

// Every 16-bit number is the upper half of an fp32 magnitude, sticky where ties are even.
struct CodeLines {
  // x = saturating(magnitude - base) is the line of slope 1.
  uint16_t base = 0;
  // saturating(2^m x - convex[m - 1]): the further lines of the convex part, m = 1, 2, 3.
  std::array<uint16_t, 3> convex{0xFFFF, 0xFFFF, 0xFFFF};
  // 2^m x + concave[m - 1], modulo 2^16: the lines above slope 8 is left, m = 1, 2.
  std::array<uint16_t, 2> concave{0x8000, 0x8000};
  // Magnitudes below this are zero; all others are at least rank 1.
  uint16_t smallest = 0;
  // Magnitudes above are taken as this, by overflow mode.
  std::array<uint16_t, 2> largest{};
  // code = rank ^ flip[rank / 8], the sign bit aside.
  std::array<uint8_t, 16> flip{};
  // The sign moves from bit 15 to the code's top bit by this many places.
  int sign_shift = 8;
  // A code without the sign's meaning, sign bit | rank 0, that is to be zero; or one that no
  // number has.
  uint8_t negative_zero = 0xFF;
  Ties ties = Ties::kEven;

  uint16_t Largest(Overflow overflow) const { return largest[static_cast<size_t>(overflow)]; }
};

// The lines of a sign-magnitude format from the values of its codes. The format must have binades
// with 2^m values each, m from 0 to 3 rising by one and then perhaps falling, from the smallest
// positive value on.
CodeLines MakeCodeLines(std::span<const float> table, Ties ties);

}  // namespace hif8
