#include "formats/code_ramps.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace hif8 {
namespace {

constexpr int kBinade = 128;  // in bf16 bits

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

// Mantissa bits of each binade from the smallest positive value on.
std::vector<int> MantissaBits(std::span<const float> table, const std::vector<uint8_t>& codes) {
  std::vector<int> bits;
  for (size_t rank = 1; rank < codes.size();) {
    const int exponent = std::ilogb(table[codes[rank]]);
    size_t next = rank;
    while (next < codes.size() && std::ilogb(table[codes[next]]) == exponent) ++next;
    // The topmost binade may lack values, to infinities and NaN: it goes on as the one below.
    bits.push_back(next == codes.size() ? bits.back()
                                        : std::bit_width(static_cast<unsigned>(next - rank)) - 1);
    rank = next;
  }
  return bits;
}

void SetRamps(const std::vector<int>& bits, CodeRamps* ramps) {
  const int half = ramps->ties == Ties::kAway ? kBinade / 2 : 0;
  ramps->base = static_cast<uint16_t>(ramps->base - half);
  for (size_t k = 0; k < ramps->start.size(); ++k) {
    const auto steep = [&](int m) { return m > static_cast<int>(k); };
    const auto first = std::find_if(bits.begin(), bits.end(), steep);
    if (first == bits.end()) continue;
    const auto last = std::find_if_not(first, bits.end(), steep);
    ramps->start[k] = static_cast<uint16_t>((first - bits.begin()) * kBinade + half);
    // What reaches the end has no end: the largest value may round up into the next binade.
    const auto binades = (last == bits.end() ? last + 1 : last) - first;
    ramps->length[k] = static_cast<uint16_t>(binades * kBinade);
  }
}

// The rank of a magnitude's upper half, ties away.
unsigned RankOf(const CodeRamps& ramps, Overflow overflow, uint16_t magnitude) {
  if (magnitude < ramps.smallest) return 0;
  const int x = std::max(0, std::min(magnitude, ramps.Largest(overflow)) - ramps.base);
  int sum = x;
  for (size_t k = 0; k < ramps.start.size(); ++k) {
    const int ramp = std::max(0, x - ramps.start[k]);
    sum += (k == 0 ? ramp : std::min<int>(ramp, ramps.length[k])) << k;
  }
  return static_cast<unsigned>(sum / kBinade + 1);
}

}  // namespace

RankTables MakeRankTables(const CodeRamps& ramps, Overflow overflow) {
  constexpr size_t kFractions = size_t{1} << RankTables::kFractionBits;
  using Pattern = std::array<uint8_t, kFractions>;
  RankTables tables;
  tables.lowest = static_cast<uint8_t>(ramps.smallest / kBinade - 1);
  std::vector<Pattern> patterns;
  for (size_t i = 0; i < RankTables::kExponents; ++i) {
    const auto rank_of = [&](size_t fraction) {
      const size_t upper_half = (tables.lowest + i) * kBinade + fraction * (kBinade / kFractions);
      return RankOf(ramps, overflow, static_cast<uint16_t>(upper_half));
    };
    tables.rank[i] = static_cast<uint8_t>(rank_of(0));
    Pattern pattern;
    for (size_t f = 0; f < kFractions; ++f) {
      pattern[f] = static_cast<uint8_t>(rank_of(f) - rank_of(0));
    }
    const auto known = std::find(patterns.begin(), patterns.end(), pattern);
    tables.pattern[i] = static_cast<uint8_t>((known - patterns.begin()) * kFractions);
    if (known == patterns.end()) patterns.push_back(pattern);
  }
  for (size_t i = 0; i < std::min(patterns.size() * kFractions, tables.rise.size()); ++i) {
    tables.rise[i] = patterns[i / kFractions][i % kFractions];
  }
  for (size_t rank = 0; rank < tables.code.size(); ++rank) {
    tables.code[rank] = static_cast<uint8_t>(rank ^ ramps.flip[rank / 8]);
  }
  return tables;
}

CodeRamps MakeCodeRamps(std::span<const float> table, Ties ties) {
  CodeRamps ramps;
  ramps.ties = ties;
  ramps.bits = std::countr_zero(table.size());
  const std::vector<uint8_t> codes = CodesByRank(table);
  const size_t sign = table.size() / 2;
  ramps.negative_zero = table[sign] == 0;
  const float smallest = table[codes[1]];
  ramps.base = UpperHalf(smallest);
  ramps.least = UpperHalf(smallest);
  ramps.smallest = static_cast<uint16_t>(UpperHalf(smallest / 2) + (ties == Ties::kEven ? 1 : 0));
  SetRamps(MantissaBits(table, codes), &ramps);
  // The code after the largest finite one may be infinity: it is one step further.
  const float largest = table[codes.back()];
  ramps.largest.fill(UpperHalf(largest));
  if (std::isinf(table[(codes.back() + 1U) % sign])) {
    ramps.largest[1] = UpperHalf(2 * largest - table[codes[codes.size() - 2]]);
  }
  for (size_t rank = 0; rank < codes.size(); rank += 8) {
    ramps.flip[rank / 8] = static_cast<uint8_t>(codes[rank] ^ rank);
  }
  return ramps;
}

}  // namespace hif8
