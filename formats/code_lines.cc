#include "formats/code_lines.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace hif8 {
namespace {

constexpr int kOne = 128;  // a rank in the lines' fixed point, and a binade in bf16 bits

uint16_t UpperHalf(float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); }

// The positive finite codes by magnitude, behind the code of zero.
std::vector<uint8_t> CodesByRank(std::span<const float> table) {
  std::vector<uint8_t> codes{0};
  for (size_t code = 0; code < table.size(); ++code) {
    if (std::isfinite(table[code]) && table[code] > 0) codes.push_back(static_cast<uint8_t>(code));
  }
  std::sort(codes.begin(), codes.end(), [&](uint8_t a, uint8_t b) { return table[a] < table[b]; });
  return codes;
}

// One line per run of binades with the same number of mantissa bits.
void AddLines(std::span<const float> table, const std::vector<uint8_t>& codes, CodeLines* lines) {
  const float smallest = table[codes[1]];
  int last_bits = 0;
  for (size_t rank = 1; rank < codes.size();) {
    const int exponent = std::ilogb(table[codes[rank]]);
    size_t next = rank;
    while (next < codes.size() && std::ilogb(table[codes[next]]) == exponent) ++next;
    // The topmost binade may lack values, to infinities and NaN: its line goes on.
    const int bits =
        next == codes.size() ? last_bits : std::bit_width(static_cast<unsigned>(next - rank)) - 1;
    const int start = kOne * (exponent - std::ilogb(smallest) + 1);  // x at this binade's begin
    const int offset = kOne * static_cast<int>(rank) - (start << bits);
    if (bits > last_bits) lines->convex[bits - 1] = static_cast<uint16_t>(-offset);
    if (bits < last_bits) lines->concave[bits - 1] = static_cast<uint16_t>(offset);
    last_bits = bits;
    rank = next;
  }
}

// Ties away add half a rank to everything; that can be done once and for all, in the offsets.
void AddHalf(CodeLines* lines) {
  constexpr int kHalf = kOne / 2;
  lines->base = static_cast<uint16_t>(lines->base - kHalf);
  for (size_t i = 0; i < lines->convex.size(); ++i) {
    const int more = (kHalf << (i + 1)) - kHalf;
    lines->convex[i] = static_cast<uint16_t>(std::min(lines->convex[i] + more, 0xFFFF));
    if (i < lines->concave.size()) {
      lines->concave[i] = static_cast<uint16_t>(lines->concave[i] - more);
    }
  }
}

}  // namespace

CodeLines MakeCodeLines(std::span<const float> table, Ties ties) {
  CodeLines lines;
  lines.ties = ties;
  const std::vector<uint8_t> codes = CodesByRank(table);
  const size_t sign = table.size() / 2;
  const float smallest = table[codes[1]];
  lines.base = static_cast<uint16_t>(UpperHalf(smallest) - kOne);
  lines.smallest = static_cast<uint16_t>(UpperHalf(smallest / 2) + (ties == Ties::kEven ? 1 : 0));
  AddLines(table, codes, &lines);
  if (ties == Ties::kAway) AddHalf(&lines);
  // The code after the largest finite one may be infinity: it is one step further.
  const float largest = table[codes.back()];
  lines.largest.fill(UpperHalf(largest));
  if (std::isinf(table[(codes.back() + 1U) % sign])) {
    lines.largest[1] = UpperHalf(2 * largest - table[codes[codes.size() - 2]]);
  }
  for (size_t rank = 0; rank < codes.size(); rank += 8) {
    lines.flip[rank / 8] = static_cast<uint8_t>(codes[rank] ^ rank);
  }
  lines.sign_shift = 16 - std::countr_zero(sign) - 1;
  if (table[sign] != 0) lines.negative_zero = static_cast<uint8_t>(sign);
  return lines;
}

}  // namespace hif8
