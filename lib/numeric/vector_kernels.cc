#include "lib/numeric/vector_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/numeric/vector_kernels.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, which selects the target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hif8 {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DInt = hn::ScalableTag<int32_t>;
using DFloat = hn::ScalableTag<float>;
using DDouble = hn::CappedTag<double, kErrorLanes>;

constexpr int32_t kMagnitude = 0x7FFFFFFF;

HWY_INLINE hn::Vec<DInt> Magnitudes(DInt d, const float* x) {
  const auto bits = hn::LoadU(d, reinterpret_cast<const int32_t*>(x));
  return hn::And(bits, hn::Set(d, kMagnitude));
}
HWY_INLINE uint32_t Most(DInt d, hn::Vec<DInt> v) {
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(d, v)));
}
HWY_INLINE uint32_t Sum(DInt d, hn::Vec<DInt> v) {
  return static_cast<uint32_t>(hn::GetLane(hn::SumOfLanes(d, v)));
}
// Counts where the mask is true: its lanes are -1.
HWY_INLINE hn::Vec<DInt> CountIf(DInt d, hn::Vec<DInt> count, hn::Mask<DInt> mask) {
  return hn::Sub(count, hn::VecFromMask(d, mask));
}

void ScanMagnitudesV(const float* x, size_t n, MagnitudeScan* out) {
  const DInt d;
  const size_t lanes = hn::Lanes(d);
  const hn::RebindToUnsigned<DInt> du;
  auto most = hn::Zero(d);
  auto less = hn::Set(du, 0xFFFFFFFF);  // than the least by 1: zeros come out on top
  auto zeros = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto magnitude = Magnitudes(d, x + i);
    most = hn::Max(most, magnitude);
    less = hn::Min(less, hn::BitCast(du, hn::Sub(magnitude, hn::Set(d, 1))));
    zeros = CountIf(d, zeros, hn::Eq(magnitude, hn::Zero(d)));
  }
  uint32_t least = hn::GetLane(hn::MinOfLanes(du, less));
  out->most = Most(d, most);
  out->zeros = Sum(d, zeros);
  for (; i < n; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(x[i]) & kMagnitude;
    out->most = std::max(out->most, magnitude);
    least = std::min(least, magnitude - 1);
    out->zeros += magnitude == 0 ? 1 : 0;
  }
  out->least = least == 0xFFFFFFFF ? least : least + 1;
}

uint32_t LargestMagnitudeV(const float* x, size_t n) {
  const DInt d;
  auto most = hn::Zero(d);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) most = hn::Max(most, Magnitudes(d, x + i));
  uint32_t largest = Most(d, most);
  for (; i < n; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & kMagnitude);
  return largest;
}

uint32_t LargestMagnitudeBF16V(const std::byte* x, size_t n) {
  uint32_t largest = 0;
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<int16_t> d;
  const hn::Repartition<uint8_t, decltype(d)> bytes;  // values may begin at any address
  const auto* from = reinterpret_cast<const uint8_t*>(x);
  auto most = hn::Zero(d);
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto bits = hn::BitCast(d, hn::LoadU(bytes, from + 2 * i));
    most = hn::Max(most, hn::And(bits, hn::Set(d, 0x7FFF)));
  }
  largest = static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(d, most)));
#endif
  for (; i < n; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, x + 2 * i, sizeof(bits));
    largest = std::max<uint32_t>(largest, bits & 0x7FFF);
  }
  return largest << 16;
}

void ScanPairsV(const float* x, const float* y, size_t n, PairScan* out) {
  const DInt d;
  const size_t lanes = hn::Lanes(d);
  auto most_x = hn::Zero(d);
  auto most_y = hn::Zero(d);
  auto zero = hn::Zero(d);
  auto both = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto a = Magnitudes(d, x + i);
    const auto b = Magnitudes(d, y + i);
    most_x = hn::Max(most_x, a);
    most_y = hn::Max(most_y, b);
    zero = CountIf(d, zero, hn::Eq(b, hn::Zero(d)));
    both = CountIf(d, both, hn::Eq(hn::Or(a, b), hn::Zero(d)));
  }
  *out = {Most(d, most_x), Most(d, most_y), Sum(d, zero), Sum(d, zero) - Sum(d, both)};
  for (; i < n; ++i) {
    const uint32_t a = std::bit_cast<uint32_t>(x[i]) & kMagnitude;
    const uint32_t b = std::bit_cast<uint32_t>(y[i]) & kMagnitude;
    out->most_x = std::max(out->most_x, a);
    out->most_y = std::max(out->most_y, b);
    out->zero += b == 0 ? 1 : 0;
    out->zeroed += b == 0 && a != 0 ? 1 : 0;
  }
}

// A vector has as many lanes as the machine offers, up to kErrorLanes: with fewer, each group of
// lanes takes its own turn over the values, so that every lane's sum is the same everywhere.
void AddErrorSumsV(const float* x, const float* y, size_t n, ErrorSums* sums) {
  const DDouble d;
  const hn::Rebind<float, DDouble> df;
  for (size_t lane = 0; lane < kErrorLanes; lane += hn::Lanes(d)) {
    auto signal = hn::LoadU(d, &sums->signal[lane]);
    auto noise = hn::LoadU(d, &sums->noise[lane]);
    auto product = hn::LoadU(d, &sums->product[lane]);
    auto quantized = hn::LoadU(d, &sums->quantized[lane]);
    auto error = hn::LoadU(d, &sums->error[lane]);
    for (size_t i = lane; i < n; i += kErrorLanes) {
      const auto a = hn::PromoteTo(d, hn::LoadU(df, x + i));
      const auto b = hn::PromoteTo(d, hn::LoadU(df, y + i));
      const auto difference = hn::Sub(a, b);
      signal = hn::Add(signal, hn::Mul(a, a));
      noise = hn::Add(noise, hn::Mul(difference, difference));
      product = hn::Add(product, hn::Mul(a, b));
      quantized = hn::Add(quantized, hn::Mul(b, b));
      error = hn::Max(error, hn::Abs(difference));
    }
    hn::StoreU(signal, d, &sums->signal[lane]);
    hn::StoreU(noise, d, &sums->noise[lane]);
    hn::StoreU(product, d, &sums->product[lane]);
    hn::StoreU(quantized, d, &sums->quantized[lane]);
    hn::StoreU(error, d, &sums->error[lane]);
  }
}

using DRounding = hn::CappedTag<float, kRoundingLanes>;
using DExponent = hn::RebindToSigned<DRounding>;

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
struct Shifts {  // in two registers
  DRounding d;
  hn::Vec<DRounding> low, high;
  explicit Shifts(const RoundingTable& table)
      : low(hn::LoadU(d, table.shift.data())), high(hn::LoadU(d, table.shift.data() + 16)) {}
  HWY_INLINE hn::Vec<DRounding> At(hn::Vec<DExponent> at) const {
    return hn::Vec<DRounding>{_mm512_permutex2var_ps(low.raw, at.raw, high.raw)};
  }
};
#else
struct Shifts {
  DRounding d;
  const float* table;
  explicit Shifts(const RoundingTable& from) : table(from.shift.data()) {}
  HWY_INLINE hn::Vec<DRounding> At(hn::Vec<DExponent> at) const {
    return hn::GatherIndex(d, table, at);
  }
};
#endif

// (y - y rounded)^2 is added.
HWY_INLINE void AddRoundingError(hn::Vec<DRounding> y, hn::Vec<DExponent> at, const Shifts& shifts,
                                 float largest, hn::Vec<DRounding>* sum) {
  const DRounding d;
  const auto shift = shifts.At(at);
  const auto cut = hn::Min(y, hn::Set(d, largest));
  const auto error = hn::Sub(y, hn::Sub(hn::Add(cut, shift), shift));
  *sum = hn::Add(*sum, hn::Mul(error, error));
}

// In a fixed order, whatever a vector's lanes.
double SumOfLanes16(const float* lanes) {
  const auto pair = [&](size_t i) { return lanes[i] + lanes[i + 8]; };
  return static_cast<double>(((pair(0) + pair(4)) + (pair(2) + pair(6))) +
                             ((pair(1) + pair(5)) + (pair(3) + pair(7))));
}

// The errors of one table, or of four, which share what they need of the values.
template <size_t kTables>
void SumRoundingErrorsOf(const float* x, size_t n, float factor, int32_t lowest,
                         const RoundingTable* tables, double* sums) {
  constexpr bool kFour = kTables == 4;
  const DRounding d;
  const DExponent di;
  HWY_ALIGN float lanes[kTables][kRoundingLanes];
  const Shifts s0(tables[0]);
  const Shifts s1(tables[kFour ? 1 : 0]);
  const Shifts s2(tables[kFour ? 2 : 0]);
  const Shifts s3(tables[kFour ? 3 : 0]);
  for (size_t lane = 0; lane < kRoundingLanes; lane += hn::Lanes(d)) {
    auto sum0 = hn::Zero(d);
    auto sum1 = hn::Zero(d);
    auto sum2 = hn::Zero(d);
    auto sum3 = hn::Zero(d);
    for (size_t i = lane; i < n; i += kRoundingLanes) {
      const auto y = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor));
      const auto exponent = hn::ShiftRight<23>(hn::BitCast(di, y));
      const auto at = hn::Min(hn::Max(hn::Sub(exponent, hn::Set(di, lowest)), hn::Zero(di)),
                              hn::Set(di, static_cast<int32_t>(kRoundingExponents) - 1));
      AddRoundingError(y, at, s0, tables[0].largest, &sum0);
      if constexpr (kFour) {
        AddRoundingError(y, at, s1, tables[1].largest, &sum1);
        AddRoundingError(y, at, s2, tables[2].largest, &sum2);
        AddRoundingError(y, at, s3, tables[3].largest, &sum3);
      }
    }
    hn::StoreU(sum0, d, lanes[0] + lane);
    if constexpr (kFour) {
      hn::StoreU(sum1, d, lanes[1] + lane);
      hn::StoreU(sum2, d, lanes[2] + lane);
      hn::StoreU(sum3, d, lanes[3] + lane);
    }
  }
  for (size_t t = 0; t < kTables; ++t) sums[t] = SumOfLanes16(lanes[t]);
}

void SumRoundingErrorsV(const float* x, size_t n, float factor, int top,
                        const RoundingTable* tables, size_t count, double* sums) {
  const int32_t lowest = top + 127 - static_cast<int32_t>(kRoundingExponents) + 1;
  size_t t = 0;
  for (; t + 4 <= count; t += 4) {
    SumRoundingErrorsOf<4>(x, n, factor, lowest, tables + t, sums + t);
  }
  for (; t < count; ++t) SumRoundingErrorsOf<1>(x, n, factor, lowest, tables + t, sums + t);
}

// The sums of four factors: a load of x serves all of them.
void SumMantissaErrorsOf(const float* x, size_t n, const float* factors, int dropped,
                         double* sums) {
  constexpr size_t kFactors = 4;
  const DRounding d;
  const DExponent di;
  HWY_ALIGN float lanes[kFactors][kRoundingLanes];
  const auto half = hn::Set(di, (1 << dropped) / 2);
  const auto kept = hn::Set(di, -(1 << dropped));
  const auto add = [&](auto loaded, float factor, auto* sum) {
    const auto y = hn::Mul(loaded, hn::Set(d, factor));
    const auto rounded = hn::And(hn::Add(hn::BitCast(di, y), half), kept);
    const auto error = hn::Sub(y, hn::BitCast(d, rounded));
    *sum = hn::Add(*sum, hn::Mul(error, error));
  };
  for (size_t lane = 0; lane < kRoundingLanes; lane += hn::Lanes(d)) {
    auto sum0 = hn::Zero(d);
    auto sum1 = hn::Zero(d);
    auto sum2 = hn::Zero(d);
    auto sum3 = hn::Zero(d);
    for (size_t i = lane; i < n; i += kRoundingLanes) {
      const auto loaded = hn::LoadU(d, x + i);
      add(loaded, factors[0], &sum0);
      add(loaded, factors[1], &sum1);
      add(loaded, factors[2], &sum2);
      add(loaded, factors[3], &sum3);
    }
    hn::StoreU(sum0, d, lanes[0] + lane);
    hn::StoreU(sum1, d, lanes[1] + lane);
    hn::StoreU(sum2, d, lanes[2] + lane);
    hn::StoreU(sum3, d, lanes[3] + lane);
  }
  for (size_t t = 0; t < kFactors; ++t) sums[t] = SumOfLanes16(lanes[t]);
}

void SumMantissaErrorsV(const float* x, size_t n, const float* factors, size_t count, int bits,
                        double* sums) {
  constexpr size_t kFactors = 4;
  const int dropped = std::numeric_limits<float>::digits - 1 - bits;
  size_t t = 0;
  for (; t + kFactors <= count; t += kFactors) {
    SumMantissaErrorsOf(x, n, factors + t, dropped, sums + t);
  }
  if (t == count) return;
  float rest[kFactors] = {};
  double of_rest[kFactors];
  std::copy(factors + t, factors + count, rest);
  SumMantissaErrorsOf(x, n, rest, dropped, of_rest);
  std::copy(of_rest, of_rest + (count - t), sums + t);
}

void ScanRangeV(const float* x, size_t n, float scale, float threshold, float reference,
                RangeScan* out) {
  const DFloat d;
  const DInt di;
  const size_t lanes = hn::Lanes(d);
  const auto largest = hn::Set(d, std::numeric_limits<float>::max());
  auto finite = hn::Zero(di);
  auto saturated = hn::Zero(di);
  auto exceeded = hn::Zero(di);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto magnitude = hn::Abs(hn::LoadU(d, x + i));
    const auto counts = hn::Le(magnitude, largest);  // false for NaN
    const auto over = hn::Ge(hn::Div(magnitude, hn::Set(d, scale)), hn::Set(d, threshold));
    const auto above = hn::Gt(magnitude, hn::Set(d, reference));
    finite = CountIf(di, finite, hn::RebindMask(di, counts));
    saturated = CountIf(di, saturated, hn::RebindMask(di, hn::And(counts, over)));
    exceeded = CountIf(di, exceeded, hn::RebindMask(di, hn::And(counts, above)));
  }
  *out = {Sum(di, finite), Sum(di, saturated), Sum(di, exceeded)};
  for (; i < n; ++i) {
    const float magnitude = std::abs(x[i]);
    const bool counts = magnitude <= std::numeric_limits<float>::max();
    out->finite += counts ? 1 : 0;
    out->saturated += counts && magnitude / scale >= threshold ? 1 : 0;
    out->exceeded += counts && magnitude > reference ? 1 : 0;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace hif8
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hif8 {

HWY_EXPORT(ScanMagnitudesV);
HWY_EXPORT(LargestMagnitudeV);
HWY_EXPORT(LargestMagnitudeBF16V);
HWY_EXPORT(ScanPairsV);
HWY_EXPORT(AddErrorSumsV);
HWY_EXPORT(SumRoundingErrorsV);
HWY_EXPORT(SumMantissaErrorsV);
HWY_EXPORT(ScanRangeV);

MagnitudeScan ScanMagnitudes(const float* x, size_t n) {
  MagnitudeScan scan;
  HWY_DYNAMIC_DISPATCH(ScanMagnitudesV)(x, n, &scan);
  return scan;
}

uint32_t LargestMagnitude(const float* x, size_t n) {
  return HWY_DYNAMIC_DISPATCH(LargestMagnitudeV)(x, n);
}

uint32_t LargestMagnitudeBF16(const std::byte* x, size_t n) {
  return HWY_DYNAMIC_DISPATCH(LargestMagnitudeBF16V)(x, n);
}

PairScan ScanPairs(const float* x, const float* y, size_t n) {
  PairScan scan;
  HWY_DYNAMIC_DISPATCH(ScanPairsV)(x, y, n, &scan);
  return scan;
}

void AddErrorSums(const float* x, const float* y, size_t n, ErrorSums* sums) {
  HWY_DYNAMIC_DISPATCH(AddErrorSumsV)(x, y, n, sums);
}

void SumRoundingErrors(const float* x, size_t n, float factor, int top,
                       std::span<const RoundingTable> tables, double* sums) {
  HWY_DYNAMIC_DISPATCH(SumRoundingErrorsV)
  (x, n, factor, top, tables.data(), tables.size(), sums);
}

void SumMantissaErrors(const float* x, size_t n, std::span<const float> factors, int bits,
                       double* sums) {
  HWY_DYNAMIC_DISPATCH(SumMantissaErrorsV)(x, n, factors.data(), factors.size(), bits, sums);
}

RangeScan ScanRange(const float* x, size_t n, float scale, float threshold, float reference) {
  RangeScan scan;
  HWY_DYNAMIC_DISPATCH(ScanRangeV)(x, n, scale, threshold, reference, &scan);
  return scan;
}

}  // namespace hif8
#endif  // HWY_ONCE
