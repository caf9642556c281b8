// The pieces of H(t), the sum over all values x of max(0, x - t), between the edges of bins: see
// calibrators/tail_sums.h. A vector of bins at a time, the same bits with every instruction set.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "lib/numeric/magnitude_histogram.h"

namespace hif8 {

// a + t (c + t d) on one segment.
struct TailSegment {
  double a, c, d;
  double At(double t) const { return a + t * (c + t * d); }

  // Returns the chord through both ends of a segment, less what evenly spread values lie below it.
  static TailSegment Curve(double low, double high, double h_low, double slope, double density) {
    const double d = density / 2;
    return {h_low - low * slope + d * low * high, slope - d * (low + high), d};
  }
};

inline constexpr size_t kOctaveSegments = size_t{1} << kBinFractionBits;

// Values from the largest down to where segments have been made.
struct Tail {
  double count = 0, sum = 0;
  double energy = 0;  // sum of squares, about: of the middles of bins, corrected by the means
  double edge = 0;    // the lower end of the last segment
  double h = 0;       // H there
};

// Bins of one octave, the topmost first.
struct OctaveBins {
  static constexpr size_t kMost = kOctaveSegments + 8;  // and room for a vector
  size_t size = 0;
  double width = 0;     // of each
  int64_t top_low = 0;  // the first bin's lower edge, in widths
  // Per bin: values, and the sum of their places in it, in [0, 2^16). Then both from the first bin
  // on, the second as sums of the values themselves in width / 2^16.
  std::array<int64_t, kMost> count, places, counts, sums;
};

// Appends a segment of H and a bound (how far H can be from the truth) for each of the bins to what
// `tail` holds; energy and edge of it are left as they are. `segments` and `bounds` have room for 8
// more.
void MakeTailSegments(const OctaveBins& bins, Tail* tail, TailSegment* segments, double* bounds);

// From the segments of H those of P(t) = H(t) + P(t / 2) / 2, `size` of them, falling in t: the one
// of t / 2 is kOctaveSegments on, and `lowest` behind the last. `chained` has
// room for kOctaveSegments more.
void ChainTailSegments(const TailSegment* segments, size_t size, const TailSegment& lowest,
                       TailSegment* chained);

}  // namespace hif8
