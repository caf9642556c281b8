#include "lib/numeric/tail_segments.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/numeric/tail_segments.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, which selects the target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hif8 {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DDouble = hn::CappedTag<double, 8>;
using DInt = hn::RebindToSigned<DDouble>;

HWY_INLINE hn::Vec<DDouble> Numbers(const int64_t* from) {
  return hn::ConvertTo(DDouble(), hn::LoadU(DInt(), from));
}

// The lower edges of bins i, i + 1, ...
HWY_INLINE hn::Vec<DDouble> Edges(const OctaveBins& bins, size_t i) {
  const DDouble d;
  const auto widths =
      hn::Sub(hn::Set(d, static_cast<double>(bins.top_low)), hn::Iota(d, static_cast<double>(i)));
  return hn::Mul(widths, hn::Set(d, bins.width));
}

void MakeSegments(const OctaveBins& bins, Tail* tail, TailSegment* segments, double* bounds) {
  const DDouble d;
  const size_t lanes = hn::Lanes(d);
  const auto zero = hn::Zero(d);
  const auto half = hn::Set(d, 0.5);
  const auto width = hn::Set(d, bins.width);
  const auto inverse_width = hn::Set(d, 1 / bins.width);
  const auto unit = hn::Set(d, bins.width * 0x1p-16);
  HWY_ALIGN double h[OctaveBins::kMost + 1];  // at the upper edge of each bin
  h[0] = tail->h;
  // A loop of its own: what a vector has stored is not there yet for one that overlaps it.
  for (size_t i = 0; i < bins.size; i += lanes) {
    const auto count = hn::Add(hn::Set(d, tail->count), Numbers(&bins.counts[i]));
    const auto sum = hn::Add(hn::Set(d, tail->sum), hn::Mul(Numbers(&bins.sums[i]), unit));
    hn::StoreU(hn::Sub(sum, hn::Mul(count, Edges(bins, i))), d, h + i + 1);
  }
  for (size_t i = 0; i < bins.size; i += lanes) {
    const auto low = Edges(bins, i);
    const auto n = Numbers(&bins.count[i]);
    const auto places = Numbers(&bins.places[i]);
    // Evenly spread, unless all lie at the bin's edge (values of few bits) or their mean is off the
    // middle by more than 4 standard errors. In any case H is convex: below the chord by at most a
    // quarter of n * width.
    const auto off = hn::Sub(hn::Mul(places, hn::Set(d, 0x1p-16)), hn::Mul(n, half));
    const auto most = hn::Add(hn::Mul(hn::Set(d, 16), n), hn::Mul(hn::Set(d, 0.01), hn::Mul(n, n)));
    const auto inside = hn::Gt(places, zero);
    const auto even = hn::And(inside, hn::Lt(hn::Mul(hn::Mul(off, off), hn::Set(d, 12)), most));
    const auto density = hn::IfThenElseZero(even, hn::Mul(n, inverse_width));
    const auto h_low = hn::LoadU(d, h + i + 1);
    const auto slope = hn::Mul(hn::Sub(hn::LoadU(d, h + i), h_low), inverse_width);
    // As TailSegment::Curve.
    const auto high = hn::Add(low, width);
    const auto square = hn::Mul(density, half);
    const auto chord = hn::Sub(h_low, hn::Mul(low, slope));
    const auto a = hn::Add(chord, hn::Mul(hn::Mul(square, low), high));
    const auto c = hn::Sub(slope, hn::Mul(square, hn::Add(low, high)));
    hn::StoreInterleaved3(a, c, square, d, &segments[i].a);
    const auto quarter = hn::Mul(hn::Mul(n, width), hn::Set(d, 0.25));
    hn::StoreU(hn::IfThenElseZero(inside, quarter), d, bounds + i);
  }
  const size_t last = bins.size - 1;
  tail->count += static_cast<double>(bins.counts[last]);
  tail->sum += static_cast<double>(bins.sums[last]) * (bins.width * 0x1p-16);
  tail->h = h[bins.size];
}

// From the last one up: each needs one that is an octave on.
void ChainSegments(const TailSegment* segments, size_t size, const TailSegment& lowest,
                   TailSegment* chained) {
  const DDouble d;
  const size_t lanes = hn::Lanes(d);
  static_assert(kOctaveSegments % 8 == 0);
  std::fill_n(chained + size, kOctaveSegments, lowest);
  // Three vectors of whole segments at a time.
  HWY_ALIGN double factors[24];
  for (size_t i = 0; i < 24; ++i) factors[i] = i % 3 == 0 ? 0.5 : i % 3 == 1 ? 0.25 : 0.125;
  const auto f0 = hn::Load(d, factors);
  const auto f1 = hn::Load(d, factors + lanes);
  const auto f2 = hn::Load(d, factors + 2 * lanes);
  const auto chain = [&](size_t at, hn::Vec<DDouble> factor, size_t part) HWY_ATTR {
    const double* own = &segments[at].a + part * lanes;
    double* out = &chained[at].a + part * lanes;
    const auto below = hn::LoadU(d, out + 3 * kOctaveSegments);
    hn::StoreU(hn::Add(hn::LoadU(d, own), hn::Mul(factor, below)), d, out);
  };
  size_t at = size;
  for (; at >= lanes; at -= lanes) {
    chain(at - lanes, f0, 0);
    chain(at - lanes, f1, 1);
    chain(at - lanes, f2, 2);
  }
  while (at-- > 0) {
    const TailSegment& own = segments[at];
    const TailSegment& below = chained[at + kOctaveSegments];
    chained[at] = {own.a + 0.5 * below.a, own.c + 0.25 * below.c, own.d + 0.125 * below.d};
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace hif8
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hif8 {

HWY_EXPORT(MakeSegments);
HWY_EXPORT(ChainSegments);

void MakeTailSegments(const OctaveBins& bins, Tail* tail, TailSegment* segments, double* bounds) {
  HWY_DYNAMIC_DISPATCH(MakeSegments)(bins, tail, segments, bounds);
}

void ChainTailSegments(const TailSegment* segments, size_t size, const TailSegment& lowest,
                       TailSegment* chained) {
  HWY_DYNAMIC_DISPATCH(ChainSegments)(segments, size, lowest, chained);
}

}  // namespace hif8
#endif  // HWY_ONCE
