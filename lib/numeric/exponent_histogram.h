// Which binary exponents the values of an operand have, and with how many bits a format keeps them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/numeric/number_format.h"
#include "lib/numeric/tensor_stats.h"

namespace hif8 {

// Counts finite values per floor(log2 |x|), zeros apart; others are left out. Subnormal fp32 values
// count as exponent -127. Sums of integers: merging is exact and free of order.
class ExponentHistogram {
 public:
  void Add(std::span<const float> values);
  // Counts values[i] / scale; `scale` is finite and above 0.
  void AddDivided(std::span<const float> values, float scale);
  // `count` values of one exponent, -127 to 127.
  void Add(int exponent, uint64_t count);
  void AddZeros(uint64_t count) { zeros_ += count; }
  void Merge(const ExponentHistogram& other);

  uint64_t count() const;  // zeros included
  uint64_t zeros() const { return zeros_; }
  // Nonzero values per exponent, rising; only exponents that occur.
  std::vector<ExponentCount> Exponents() const;

 private:
  static constexpr int kLowest = -127;
  std::array<uint64_t, 255> counts_{};  // by exponent - kLowest
  uint64_t zeros_ = 0;
};

// The histograms of an operand, as it was and divided by its scales.
struct ScaledExponents {
  ExponentHistogram before, after;
  void Merge(const ScaledExponents& other) {
    before.Merge(other.before);
    after.Merge(other.after);
  }
};

// Returns the histogram of a record. Every value is counted in its octave, exactly.
ExponentHistogram ExponentsOf(const TensorStats& stats);
// Counts exponents of |x / scale|, for a scale > 0. A bin of the record that an octave's edge
// divides is split by its mean and spread: at most the share of one bin, 2^-7 of an octave wide, is
// estimated. Quotients beyond the exponents of fp32 count as the nearest.
ExponentHistogram ExponentsOf(const TensorStats& stats, double scale);

// Values with floor(log2 |x|) in [first, last] keep `bits` significant bits, the leading 1
// included.
struct PrecisionBand {
  int bits = 0;  // >= 1
  int first = 0;
  int last = 0;
  bool operator==(const PrecisionBand&) const = default;
};

// Returns the bands of a format in rising order of exponent, from its smallest positive to its
// largest finite value: bits = e - log2(step) + 1, where the step is the distance from the binade's
// first value to the next one. In a top binade with one value it follows from the overflow
// threshold, which lies half a step above.
std::vector<PrecisionBand> PrecisionBands(const NumberFormat& format);
// Returns the significant bits that values with this exponent keep; 0 outside of the bands.
int BitsAt(std::span<const PrecisionBand> bands, int exponent);

}  // namespace hif8
