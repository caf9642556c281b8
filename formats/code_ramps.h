// What the vector path knows of a format: its codes as a sum of ramps over the bits of a number.
//
// Number the non-negative finite codes by magnitude: rank 0 is zero, rank 1 the smallest positive
// value, and so on. In a binade with m mantissa bits the rank grows by one every 2^(7 - m) steps of
// the number's bits when cut to bf16, so that 128 * rank is a line of slope 2^m over these bits.
// Slopes rise with the exponent (denormals) and may fall again (the upper half of a tapered
// format): where they are at least 2, 4, 8 is one stretch each, within one another. So with
//   x = saturating(bits - base),  ramp(k) = min(saturating(x - start[k]), length[k])
// the sum x + ramp(0) + 2 ramp(1) + 4 ramp(2) is 128 * (rank - 1), not yet rounded: a handful of
// saturating 16-bit operations, no table, no branch. Rounding to the even rank needs to know
// whether anything was cut off; the lowest bit is made 1 then ("sticky").
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "lib/numeric/number_format.h"

namespace hif8 {

enum class Ties { kAway, kEven };

// Every 16-bit number is the upper half of an fp32 magnitude, sticky where ties are even.
struct CodeRamps {
  // Adds half a rank where ties go away, by moving base and starts.
  uint16_t base = 0;
  std::array<uint16_t, 3> start{0x7FFF, 0x7FFF, 0x7FFF};
  std::array<uint16_t, 3> length{};  // length[0] is not used: that ramp reaches the end
  // Magnitudes below this are zero; all others are at least rank 1, whose value is `least`.
  uint16_t smallest = 0;
  uint16_t least = 0;
  // Magnitudes above are taken as this, by overflow mode.
  std::array<uint16_t, 2> largest{};
  // code = rank ^ flip[rank / 8], the sign bit aside.
  std::array<uint8_t, 16> flip{};
  int bits = 8;                // of a code; the sign is the topmost
  bool negative_zero = false;  // whether the sign of a zero is kept
  Ties ties = Ties::kEven;

  uint16_t Largest(Overflow overflow) const { return largest[static_cast<size_t>(overflow)]; }
};

// Returns the ramps of a sign-magnitude format from the values of its codes. The format must have
// binades with 2^m values each, m from 0 to 3 rising by one and then perhaps falling to 1, from the
// smallest positive value on.
CodeRamps MakeCodeRamps(std::span<const float> table, Ties ties);

// Holds the same codes where ties go away, by look-ups in tables that fit vector registers: the
// rank of a number is that of its exponent's lower end, plus what the exponent's pattern of
// rounding makes of the top four fraction bits.
struct RankTables {
  static constexpr int kFractionBits = 4;
  static constexpr size_t kExponents = 64;

  uint8_t lowest = 0;  // biased exponents up to this one are entry 0, the others follow
  std::array<uint8_t, kExponents> rank{};
  std::array<uint8_t, kExponents> pattern{};  // times 16
  std::array<uint8_t, 128> rise{};            // by pattern and fraction
  std::array<uint8_t, 128> code{};            // by rank, without sign
};

// From ramps whose ties go away. The format has at most 128 ranks and 8 patterns.
RankTables MakeRankTables(const CodeRamps& ramps, Overflow overflow);

}  // namespace hif8
