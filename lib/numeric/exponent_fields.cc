#include "lib/numeric/exponent_fields.h"

#include <algorithm>
#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/numeric/exponent_fields.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, which selects the target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hif8 {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int32_t kMagnitude = 0x7FFFFFFF;

#if HWY_TARGET != HWY_SCALAR

using DBytes = hn::ScalableTag<uint8_t>;
using DHalf = hn::RepartitionToWide<DBytes>;
using DInt = hn::RebindToSigned<hn::RepartitionToWide<DHalf>>;

// Exponents of so many values are bytes at a time.
constexpr size_t kMostExponents = 8192;
// They are counted a few at a time, in a pass over the bytes, from the largest down, where most
// values are: until fewer than one in kFew values are left, which are picked out. Where that takes
// more passes, a table is quicker.
constexpr size_t kTogether = 4;
constexpr int kMostPasses = 8;
constexpr size_t kFew = 512;

// The exponents of two vectors of values in the upper bytes.
HWY_INLINE hn::Vec<DHalf> ExponentsOfTwo(const float* x, hn::Vec<DInt> significand) {
  const DInt d;
  const DHalf dh;
  const auto reduced = [&](const float* at) HWY_ATTR {
    const auto bits = hn::LoadU(d, reinterpret_cast<const int32_t*>(at));
    const auto magnitude = hn::And(bits, hn::Set(d, kMagnitude));
    return hn::BitCast(dh, hn::Max(hn::Sub(magnitude, significand), hn::Zero(d)));
  };
  const auto low = reduced(x);
  const auto upper = hn::ConcatOdd(dh, reduced(x + hn::Lanes(d)), low);
  return hn::Add(upper, upper);
}

// How many of the n bytes, a multiple of the lanes, are equal to `value`, to `value` - 1, ...
struct ByteCounts {
  size_t of[kTogether];
};
HWY_INLINE ByteCounts CountBytes(const uint8_t* bytes, size_t n, uint32_t value) {
  const DBytes d;
  const auto wanted = hn::Set(d, static_cast<uint8_t>(value));
  auto count0 = hn::Zero(d);
  auto count1 = hn::Zero(d);
  auto count2 = hn::Zero(d);
  auto count3 = hn::Zero(d);
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto below = hn::Sub(wanted, hn::LoadU(d, bytes + i));
    const auto is = [&](uint8_t by)
                        HWY_ATTR { return hn::VecFromMask(d, hn::Eq(below, hn::Set(d, by))); };
    count0 = hn::Sub(count0, is(0));
    count1 = hn::Sub(count1, is(1));
    count2 = hn::Sub(count2, is(2));
    count3 = hn::Sub(count3, is(3));
  }
  const hn::Repartition<uint64_t, DBytes> d64;
  const auto sum = [&](hn::Vec<DBytes> counts) HWY_ATTR {
    return static_cast<size_t>(hn::GetLane(hn::SumOfLanes(d64, hn::SumsOf8(counts))));
  };
  return {{sum(count0), sum(count1), sum(count2), sum(count3)}};
}

// Counts the bytes from 1 up to `last`, of which there are few.
HWY_INLINE void CountFewBytes(const uint8_t* bytes, size_t n, uint8_t last, uint64_t* counts) {
  const DBytes d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < n; i += lanes) {
    // Zeros come out on top.
    const auto below = hn::Sub(hn::LoadU(d, bytes + i), hn::Set(d, 1));
    const auto wanted = hn::Lt(below, hn::Set(d, last));
    if (hn::AllFalse(d, wanted)) continue;
    uint8_t bits[HWY_MAX_BYTES / 8 + 8] = {};
    hn::StoreMaskBits(d, wanted, bits);
    for (size_t byte = 0; byte < (lanes + 7) / 8; ++byte) {
      for (uint32_t left = bits[byte]; left != 0; left &= left - 1) {
        ++counts[bytes[i + 8 * byte + static_cast<size_t>(std::countr_zero(left))]];
      }
    }
  }
}

// All that there are, however many.
void CountManyBytes(const uint8_t* bytes, size_t n, uint8_t last, uint64_t* counts) {
  uint32_t table[256] = {};
  for (size_t i = 0; i < n; ++i) ++table[bytes[i]];
  for (size_t e = 1; e <= last; ++e) counts[e] += table[e];
}

// n is a multiple of the lanes of bytes, and so small that a count of their vectors fits in a byte.
void CountBlock(const float* x, size_t n, int32_t significand, uint64_t* counts) {
  const DBytes d;
  const DHalf dh;
  HWY_ALIGN uint8_t exponents[kMostExponents];
  const auto subtrahend = hn::Set(DInt(), significand);
  auto most = hn::Zero(dh);
  auto least = hn::Set(dh, 0xFFFF);
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto low = ExponentsOfTwo(x + i, subtrahend);
    const auto high = ExponentsOfTwo(x + i + hn::Lanes(dh), subtrahend);
    most = hn::Max(most, hn::Max(low, high));
    least = hn::Min(least, hn::Min(low, high));
    hn::StoreU(hn::ConcatOdd(d, hn::BitCast(d, high), hn::BitCast(d, low)), d, exponents + i);
  }
  const bool has_zeros = hn::GetLane(hn::MinOfLanes(dh, least)) < 0x100;
  const size_t zeros = has_zeros ? CountBytes(exponents, n, 0).of[0] : 0;
  counts[0] += zeros;
  size_t rest = n - zeros;
  uint32_t last = hn::GetLane(hn::MaxOfLanes(dh, most)) >> 8;
  for (int pass = 0; rest > n / kFew; ++pass) {
    if (pass == kMostPasses) {
      return CountManyBytes(exponents, n, static_cast<uint8_t>(last), counts);
    }
    const ByteCounts found = CountBytes(exponents, n, last);
    for (size_t i = 0; i < kTogether && last > 0; ++i, --last) {
      counts[last] += found.of[i];
      rest -= found.of[i];
    }
  }
  if (rest > 0) CountFewBytes(exponents, n, static_cast<uint8_t>(last), counts);
}

#endif  // HWY_SCALAR

void CountAll(const float* x, size_t n, uint32_t significand, uint64_t* counts) {
  const auto subtrahend = static_cast<int32_t>(significand);
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const size_t lanes = hn::Lanes(DBytes());
  const size_t block = std::min(kMostExponents, 255 * lanes);
  for (const size_t whole = n - n % lanes; i < whole;) {
    const size_t size = std::min(block, whole - i);
    CountBlock(x + i, size, subtrahend, counts);
    i += size;
  }
#endif
  for (; i < n; ++i) {
    const auto magnitude = static_cast<int32_t>(std::bit_cast<uint32_t>(x[i]) & kMagnitude);
    ++counts[std::max(magnitude - subtrahend, 0) >> 23];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace hif8
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hif8 {

HWY_EXPORT(CountAll);

void CountExponents(const float* x, size_t n, uint32_t significand, ExponentFields* counts) {
  HWY_DYNAMIC_DISPATCH(CountAll)(x, n, significand, counts->data());
}

}  // namespace hif8
#endif  // HWY_ONCE
