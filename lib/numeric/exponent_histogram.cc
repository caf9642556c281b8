#include "lib/numeric/exponent_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lib/numeric/exponent_fields.h"
#include "lib/numeric/vector_kernels.h"

namespace hif8 {
namespace {

// The share of a bin's values that are at least `edge`, by the model of MagnitudeBin.
double ShareAtLeast(const MagnitudeBin& bin, double edge) {
  if (edge <= bin.low) return 1;
  if (edge >= bin.low + bin.width) return 0;
  if (bin.spread == 0) return bin.mean >= edge ? 1 : 0;
  return std::clamp((bin.mean + bin.spread - edge) / (2 * bin.spread), 0.0, 1.0);
}

}  // namespace

void ExponentHistogram::Add(std::span<const float> values) {
  ExponentFields fields{};
  CountExponents(values.data(), values.size(), 0, &fields);
  // Zeros have the exponent field of the subnormal values: only where there are some, look again.
  const uint64_t zeros = fields[0] == 0 ? 0 : ScanMagnitudes(values.data(), values.size()).zeros;
  for (size_t e = 0; e < counts_.size(); ++e) counts_[e] += fields[e];
  counts_[0] -= zeros;
  zeros_ += zeros;
}

void ExponentHistogram::AddDivided(std::span<const float> values, float scale) {
  const auto bits = std::bit_cast<uint32_t>(scale);
  const auto shift = static_cast<int>(bits >> 23) - 127;
  // A quotient of normal numbers has the difference of their exponents, less 1 where the dividend's
  // significand is the smaller one; rounding never takes it to the next power of two.
  ExponentFields fields{};
  CountExponents(values.data(), values.size(), bits & 0x7FFFFF, &fields);
  const uint64_t zeros = fields[0] == 0 ? 0 : ScanMagnitudes(values.data(), values.size()).zeros;
  bool normal = shift > -127 && fields[0] == zeros && fields[254] + fields[255] == 0;
  for (int e = 1; e < 254; ++e) {
    if (fields[static_cast<size_t>(e)] > 0 && (e - shift < 1 || e - shift > 254)) normal = false;
  }
  if (!normal) {
    std::vector<float> quotients(values.begin(), values.end());
    for (float& q : quotients) q /= scale;
    return Add(quotients);
  }
  for (int e = std::max(1, 1 + shift); e < std::min(254, 255 + shift); ++e) {
    counts_[static_cast<size_t>(e - shift)] += fields[static_cast<size_t>(e)];
  }
  zeros_ += zeros;
}

void ExponentHistogram::Add(int exponent, uint64_t count) {
  const int highest = kLowest + static_cast<int>(counts_.size()) - 1;
  counts_[static_cast<size_t>(std::clamp(exponent, kLowest, highest) - kLowest)] += count;
}

void ExponentHistogram::Merge(const ExponentHistogram& other) {
  for (size_t e = 0; e < counts_.size(); ++e) counts_[e] += other.counts_[e];
  zeros_ += other.zeros_;
}

uint64_t ExponentHistogram::count() const {
  uint64_t sum = zeros_;
  for (const uint64_t count : counts_) sum += count;
  return sum;
}

std::vector<ExponentCount> ExponentHistogram::Exponents() const {
  std::vector<ExponentCount> exponents;
  for (size_t e = 0; e < counts_.size(); ++e) {
    if (counts_[e] > 0) exponents.push_back({static_cast<int>(e) + kLowest, counts_[e]});
  }
  return exponents;
}

ExponentHistogram ExponentsOf(const TensorStats& stats) {
  ExponentHistogram histogram;
  histogram.AddZeros(stats.zeros());
  for (const ExponentCount& octave : stats.Exponents()) {
    histogram.Add(octave.exponent, octave.count);
  }
  return histogram;
}

ExponentHistogram ExponentsOf(const TensorStats& stats, double scale) {
  ExponentHistogram histogram;
  histogram.AddZeros(stats.zeros());
  for (const MagnitudeBin& bin : stats.Bins()) {
    // The bin that holds the subnormal values has low = 0; its mean tells where they are.
    const int exponent = std::ilogb((bin.low > 0 ? bin.low : bin.mean) / scale);
    // A bin is at most one octave wide: it reaches into the next one at most.
    const double edge = std::ldexp(scale, exponent + 1);
    const auto upper = static_cast<uint64_t>(
        std::llround(static_cast<double>(bin.count) * ShareAtLeast(bin, edge)));
    histogram.Add(exponent, bin.count - upper);
    histogram.Add(exponent + 1, upper);
  }
  return histogram;
}

std::vector<PrecisionBand> PrecisionBands(const NumberFormat& format) {
  std::vector<float> values;
  for (const float value : format.DecodeTable()) {
    if (value > 0 && std::isfinite(value)) values.push_back(value);
  }
  std::sort(values.begin(), values.end());
  std::vector<PrecisionBand> bands;
  for (size_t i = 0; i < values.size(); ++i) {
    const int exponent = std::ilogb(values[i]);
    if (i > 0 && std::ilogb(values[i - 1]) == exponent) continue;
    const double step = i + 1 < values.size() ? values[i + 1] - values[i]
                                              : 2 * (format.OverflowThreshold() - values[i]);
    const int bits = exponent - std::ilogb(step) + 1;
    if (bands.empty() || bands.back().bits != bits || bands.back().last != exponent - 1) {
      bands.push_back({bits, exponent, exponent});
    } else {
      bands.back().last = exponent;
    }
  }
  return bands;
}

int BitsAt(std::span<const PrecisionBand> bands, int exponent) {
  for (const PrecisionBand& band : bands) {
    if (band.first <= exponent && exponent <= band.last) return band.bits;
  }
  return 0;
}

}  // namespace hif8
