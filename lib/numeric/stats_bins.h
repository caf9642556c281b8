// The sparse bins of a statistics record: merging, collapsing and their bytes. Internal to
// tensor_stats.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/numeric/magnitude_histogram.h"

namespace hif8 {

// Values of one bin as exact integers. An octave bin holds a whole exponent.
struct StatsBin {
  uint32_t key = 0;       // fp32 bits >> 16; of an octave bin the exponent's first key
  bool octave = false;    // collapsed
  uint64_t count = 0;     // > 0
  uint64_t low_sum = 0;   // of the low 16 bits of the values
  uint64_t high_sum = 0;  // octave bins: of the 7 fraction bits above them
};

inline constexpr uint32_t kFineOctaves = 32;
inline uint32_t ExponentOfKey(uint32_t key) { return key >> kBinFractionBits; }
// True when bins of this fp32 exponent field are collapsed and the largest magnitude is in another.
inline bool IsCollapsed(uint32_t exponent, uint32_t amax_bits) {
  return exponent + kFineOctaves <= amax_bits >> 23;
}

// Bins in rising order of key; those far below amax collapsed. Appending in rising order of key
// keeps it so.
class StatsBins {
 public:
  const std::vector<StatsBin>& bins() const { return bins_; }
  // Returns the exact sum of two lists, collapsed for the common amax.
  static StatsBins Merge(const StatsBins& a, const StatsBins& b, uint32_t amax_bits);
  // Returns the nonzero values of a dense histogram in which `zeros` values are zero.
  static StatsBins FromHistogram(const MagnitudeHistogram& histogram, uint64_t zeros,
                                 uint32_t amax_bits);

  // Keys, counts and sums as a bit stream; see stats_bins.cc.
  void AppendTo(uint32_t amax_bits, std::string* bytes) const;
  // Reads what AppendTo wrote. False when the bytes are not that: truncated, not in order, sums
  // that their counts do not allow, bins collapsed that must not be, or more than 2^44 values.
  static bool Read(std::string_view bytes, uint32_t amax_bits, StatsBins* out);

 private:
  void Append(StatsBin bin, uint32_t amax_bits);
  std::vector<StatsBin> bins_;
};

}  // namespace hif8
