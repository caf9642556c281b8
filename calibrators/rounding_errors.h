// The squared error of quantizing few values, at many scales: by rounding them all in fp32.
//
// Values are looked at as y = |x| / s with s between two powers of two; the candidates s 2^j share
// y, since a format of steps u(e) at binary exponent e rounds y / 2^j as one of steps 2^j u(e - j)
// rounds y.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "lib/numeric/vector_kernels.h"

namespace hif8 {

// Describes the exponents at which a format has the most mantissa bits. All of its values have at
// most these bits, and below the band it has the fewer the smaller the exponent.
struct WidestBand {
  int bits = 0;   // behind the leading one
  float top = 0;  // the largest value of the band, or the power of two right above it
};

// Tabulates how a format whose values are evenly spaced within each binary exponent rounds at
// scales that are powers of two apart.
class RoundingTables {
 public:
  // For scales within `octaves` of one that maps the largest value to about `target`. Nothing for
  // other formats.
  static std::optional<RoundingTables> Make(std::span<const float> decode_table, float target,
                                            int octaves);
  int top() const { return top_; }
  // Returns nothing for formats whose band is narrower than a few exponents, as integers' is.
  const std::optional<WidestBand>& band() const { return band_; }
  // For `count` scales, the first of them 2^octave.
  std::span<const RoundingTable> From(int octave, size_t count) const {
    const int position = octave + octaves_;
    return std::span(tables_).subspan(static_cast<size_t>(position), count);
  }

 private:
  std::vector<RoundingTable> tables_;  // by octave, from -octaves_ on
  std::optional<WidestBand> band_;
  int octaves_ = 0;
  int top_ = 0;
};

class RoundingErrors {
 public:
  // `values`: at most kMostRounded. `base`: the scale that maps the largest to about the target.
  RoundingErrors(const RoundingTables& tables, std::span<const float> values, float base);
  // errors[i] = sum of (x - s q(x / s))^2 for s = scale * 2^(first + i). What is wrong about it:
  // 1e-5 of it for the sum, and 2^-22 of the root of it times the sum of x^2 for y.
  void SquaredErrors(float scale, int first, std::span<double> errors) const;
  // Returns what a format of so many mantissa bits at every exponent would give at each of the
  // scales, which bounds the error of one that has them in a band, at that scale or octaves away.
  std::vector<double> LeastErrors(std::span<const float> scales, int bits) const;

 private:
  const RoundingTables& tables_;
  int base_exponent_;
  size_t size_;
  std::array<float, kMostRounded> magnitudes_;  // and zeros up to whole vectors
};

}  // namespace hif8
