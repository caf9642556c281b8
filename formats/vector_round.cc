#include <cstring>

#include "formats/vector_codec.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/vector_round.cc"
#define HWY_WANT_AVX3_DL
#include "hwy/foreach_target.h"
// Behind foreach_target.h, which selects the target.
#include "formats/vector_source-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hif8 {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void RoundRamps(const RoundJob& job, const CodeRamps&) { RoundReference(job, 0, job.count); }
void RoundInt8(const RoundJob& job) { RoundReference(job, 0, job.count); }

#else

namespace hn = hwy::HWY_NAMESPACE;

// Upper halves of fp32 bits, rounded to values of the format; below, stickiness as elsewhere.
// Within a binade that keeps m of the seven fraction bits the others are 127 >> m.
template <Ties kTies>
HWY_INLINE hn::Vec<DHalf> RoundHalves(const CodeRamps& ramps, hn::Vec<DHalf> magnitude) {
  const DHalf d;
  const hn::RebindToSigned<DHalf> di;
  // All numbers are below 2^15: signed comparisons are right, and cheaper.
  const auto set = [&](int value) HWY_ATTR { return hn::Set(di, static_cast<int16_t>(value)); };
  const auto clamped = hn::Min(magnitude, hn::Set(d, ramps.largest[0]));
  const auto x = hn::BitCast(di, hn::SaturatedSub(clamped, hn::Set(d, ramps.base)));
  const auto within = [&](size_t k) HWY_ATTR {
    return hn::And(hn::Gt(x, set(ramps.start[k] - 1)),
                   hn::Lt(x, set(ramps.start[k] + ramps.length[k])));
  };
  const auto one_bit = hn::Gt(x, set(ramps.start[0] - 1));
  auto dropped = hn::IfThenElse(one_bit, set(0x3F), set(0x7F));
  dropped = hn::IfThenElse(within(1), set(0x1F), dropped);
  dropped = hn::IfThenElse(within(2), set(0x0F), dropped);
  const auto mask = hn::BitCast(d, dropped);
  auto half = hn::ShiftRight<1>(mask);  // one less than half of the last kept bit
  if (kTies == Ties::kAway) {
    half = hn::Sub(mask, half);
  } else {
    // One more where the value below is odd; without mantissa bits it always is.
    const auto last_bit = hn::And(clamped, hn::Add(mask, hn::Set(d, 1)));
    const auto odd =
        hn::IfThenElse(hn::RebindMask(d, one_bit), hn::Min(last_bit, hn::Set(d, 1)), hn::Set(d, 1));
    half = hn::Add(half, odd);
  }
  const auto rounded = hn::AndNot(mask, hn::Add(clamped, half));
  return hn::Max(rounded, hn::Set(d, ramps.least));
}

// Two vectors of fp32 at a time, as two halves of one: no lanes are moved. False when a NaN or an
// infinity is among the numbers.
template <Ties kTies>
struct RampRounder {
  static constexpr bool kUpperBits = kTies == Ties::kAway;

  CodeRamps ramps;

  static size_t Step() { return 2 * hn::Lanes(DFloat()); }

  template <class Scale>
  HWY_INLINE bool RoundStep(const float* x, const Scale& scale, size_t i, float* y) const {
    const DFloat d;
    const DWord dw;
    const DHalf dh;
    const hn::RebindToSigned<DHalf> di;
    const size_t next = i + hn::Lanes(d);
    const auto upper_half = hn::Set(dw, 0xFFFF0000U);
    const auto low = hn::BitCast(dw, scale.Divide(d, hn::LoadU(d, x + i), i));
    const auto high = hn::BitCast(dw, scale.Divide(d, hn::LoadU(d, x + next), next));
    const auto number = hn::BitCast(dh, hn::OrAnd(hn::ShiftRight<16>(low), high, upper_half));
    const auto magnitude = hn::And(number, hn::Set(dh, 0x7FFF));
    if (HWY_UNLIKELY(
            !hn::AllFalse(di, hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, int16_t{0x7F7F}))))) {
      return false;
    }
    auto sticky = magnitude;
    if (kTies == Ties::kEven) {
      const auto rest = hn::Or(hn::ShiftLeft<16>(high), hn::AndNot(upper_half, low));
      sticky = hn::Or(magnitude, hn::Min(hn::BitCast(dh, rest), hn::Set(dh, 1)));
    }
    const auto rounded = RoundHalves<kTies>(ramps, sticky);
    const auto with_sign = hn::OrAnd(rounded, number, hn::Set(dh, 0x8000));
    const auto is_zero =
        hn::Lt(hn::BitCast(di, sticky), hn::Set(di, static_cast<int16_t>(ramps.smallest)));
    const auto value = hn::BitCast(dw, hn::IfThenZeroElse(hn::RebindMask(dh, is_zero), with_sign));
    const auto low_value = hn::BitCast(d, hn::ShiftLeft<16>(value));
    const auto high_value = hn::BitCast(d, hn::And(value, upper_half));
    // The sum makes +0 of products that underflow to -0.
    const auto zero = hn::Zero(d);
    hn::StoreU(hn::Add(scale.Multiply(d, low_value, i), zero), d, y + i);
    hn::StoreU(hn::Add(scale.Multiply(d, high_value, next), zero), d, y + next);
    return true;
  }
};

struct IntegerRounder {
  static constexpr bool kUpperBits = false;

  static size_t Step() { return hn::Lanes(DFloat()); }

  template <class Scale>
  HWY_INLINE bool RoundStep(const float* x, const Scale& scale, size_t i, float* y) const {
    const DFloat d;
    const auto original = hn::LoadU(d, x + i);
    const auto q = scale.Divide(d, original, i);
    const auto clamped = hn::Min(hn::Max(q, hn::Set(d, -127.0F)), hn::Set(d, 127.0F));
    const auto value = hn::Add(scale.Multiply(d, hn::Round(clamped), i), hn::Zero(d));
    const auto is_finite = hn::Eq(hn::Sub(original, original), hn::Zero(d));
    hn::StoreU(hn::IfThenElse(is_finite, value, original), d, y + i);
    return true;
  }
};

// As in encoding, the loop calls nothing and stops at what the reference has to do.
template <class Rounder, class Scale>
HWY_NOINLINE size_t RoundUntilSpecial(const RoundJob& job, const Rounder& shared_rounder,
                                      const Scale scale, size_t i) {
  const Rounder rounder = shared_rounder;
  const float* x = job.x;
  float* y = job.y;
  const size_t count = job.count;
  const size_t n = Rounder::Step();
  while (i + n <= count && rounder.RoundStep(x, scale, i, y)) i += n;
  return i;
}

template <class Rounder, class Scale>
size_t RoundVectors(const RoundJob& job, const Rounder& rounder, Scale scale) {
  const size_t n = Rounder::Step();
  size_t i = 0;
  while (true) {
    i = RoundUntilSpecial(job, rounder, scale, i);
    if (i + n > job.count) return i;
    RoundReference(job, i, i + n);
    i += n;
  }
}

template <class Rounder>
size_t RoundFront(const RoundJob& job, const Rounder& rounder) {
  return WithScale<Rounder::kUpperBits>(
      job.scale, [&](auto scale) { return RoundVectors(job, rounder, scale); });
}

// What is left when whole vectors are done goes through one padded step.
template <class Rounder>
void RoundAll(const RoundJob& job, const Rounder& rounder) {
  const size_t done = RoundFront(job, rounder);
  const size_t rest = job.count - done;
  if (rest == 0) return;
  constexpr size_t kMost = 64;
  float x[kMost] = {};
  float scales[kMost];
  std::memcpy(x, job.x + done, rest * sizeof(float));
  RoundJob tail = job;
  tail.x = x;
  tail.y = x;
  tail.count = Rounder::Step();
  if (job.scale.per_value) {
    for (size_t i = 0; i < kMost; ++i) scales[i] = i < rest ? job.scale.values[done + i] : 1.0F;
    tail.scale.values = scales;
  }
  RoundFront(tail, rounder);
  std::memcpy(job.y + done, x, rest * sizeof(float));
}

void RoundRamps(const RoundJob& job, const CodeRamps& ramps) {
  if (ramps.ties == Ties::kAway) {
    RoundAll(job, RampRounder<Ties::kAway>{ramps});
  } else {
    RoundAll(job, RampRounder<Ties::kEven>{ramps});
  }
}

void RoundInt8(const RoundJob& job) { RoundAll(job, IntegerRounder{}); }

#endif  // HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace hif8
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hif8 {

HWY_EXPORT(RoundRamps);
HWY_EXPORT(RoundInt8);

void RoundByRamps(const RoundJob& job, const CodeRamps& ramps) {
  HWY_DYNAMIC_DISPATCH(RoundRamps)(job, ramps);
}

void RoundIntegers(const RoundJob& job) { HWY_DYNAMIC_DISPATCH(RoundInt8)(job); }

}  // namespace hif8
#endif
