// Where vector kernels get their numbers from. Included once per instruction set.
#include <cstddef>
#include <cstdint>

#if defined(HIF8_VECTOR_SOURCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HIF8_VECTOR_SOURCE_INL_H_
#undef HIF8_VECTOR_SOURCE_INL_H_
#else
#define HIF8_VECTOR_SOURCE_INL_H_
#endif

#include "hwy/highway.h"
#include "lib/numeric/number_format.h"

HWY_BEFORE_NAMESPACE();
namespace hif8 {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;

using DCode = hn::CappedTag<uint8_t, 64>;
using DHalf = hn::RepartitionToWide<DCode>;
using DWord = hn::RepartitionToWide<DHalf>;
using DFloat = hn::RebindToFloat<DWord>;

// Loads numbers of one type: element i and the following ones as a vector of fp32.
struct FromF32 {
  const float* x;
  HWY_INLINE hn::Vec<DFloat> Load(DFloat d, size_t i) const { return hn::LoadU(d, x + i); }
};
struct FromF16 {
  const hwy::float16_t* x;
  HWY_INLINE hn::Vec<DFloat> Load(DFloat d, size_t i) const {
    const auto promoted = hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, DFloat>(), x + i));
#if (HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2) || HWY_TARGET == HWY_EMU128
    // Without an instruction for it, promotion takes infinities and NaN for finite numbers.
    const DWord dw;
    const hn::Rebind<uint16_t, DFloat> dh;
    const auto bits = hn::PromoteTo(dw, hn::LoadU(dh, reinterpret_cast<const uint16_t*>(x) + i));
    const auto special = hn::Eq(hn::And(bits, hn::Set(dw, 0x7C00)), hn::Set(dw, 0x7C00));
    const auto ones = hn::IfThenElseZero(special, hn::Set(dw, 0x7F800000));
    return hn::BitCast(d, hn::Or(hn::BitCast(dw, promoted), ones));
#else
    return promoted;
#endif
  }
};
struct FromBF16 {
  const hwy::bfloat16_t* x;
  HWY_INLINE hn::Vec<DFloat> Load(DFloat d, size_t i) const {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::bfloat16_t, DFloat>(), x + i));
  }
};

// Scales numbers: element i and the following ones, to codes and back.
struct Unscaled {
  HWY_INLINE hn::Vec<DFloat> Divide(DFloat, hn::Vec<DFloat> x, size_t) const { return x; }
  HWY_INLINE hn::Vec<DFloat> Multiply(DFloat, hn::Vec<DFloat> q, size_t) const { return q; }
};
struct OneScale {
  float scale;
  HWY_INLINE hn::Vec<DFloat> Divide(DFloat d, hn::Vec<DFloat> x, size_t) const {
    return hn::Div(x, hn::Set(d, scale));
  }
  HWY_INLINE hn::Vec<DFloat> Multiply(DFloat d, hn::Vec<DFloat> q, size_t) const {
    return hn::Mul(q, hn::Set(d, scale));
  }
};
// One scale without divisions: x / scale is x * high + x * low, where high + low is 1 / scale to
// twice the precision of fp32. That differs from the rounded quotient only where less than 2^-23 of
// its last digit decides how it is rounded, and never in sign, exponent and top four fraction bits:
// both grow with x and pass each multiple of 1/16 at the same x, for every scale. There are 2^23
// scales to try, since binades are alike (Hif8Exhaustive.DividesByEverySignificand); in the range
// of Serves() nothing under- or overflows that does not become 0 or saturate anyway.
struct ByReciprocal {
  explicit ByReciprocal(float by)
      : scale(by),
        high(1 / by),
        low(static_cast<float>(1 / static_cast<double>(by) - static_cast<double>(high))) {}
  static bool Serves(float scale) {
    return HWY_NATIVE_FMA && scale >= 0x1p-60F && scale <= 0x1p60F;
  }

  float scale, high, low;
  HWY_INLINE hn::Vec<DFloat> Divide(DFloat d, hn::Vec<DFloat> x, size_t) const {
    return hn::MulAdd(x, hn::Set(d, high), hn::Mul(x, hn::Set(d, low)));
  }
  HWY_INLINE hn::Vec<DFloat> Multiply(DFloat d, hn::Vec<DFloat> q, size_t) const {
    return hn::Mul(q, hn::Set(d, scale));
  }
};
struct ScalePerValue {
  const float* scales;
  HWY_INLINE hn::Vec<DFloat> Divide(DFloat d, hn::Vec<DFloat> x, size_t i) const {
    return hn::Div(x, hn::LoadU(d, scales + i));
  }
  HWY_INLINE hn::Vec<DFloat> Multiply(DFloat d, hn::Vec<DFloat> q, size_t i) const {
    return hn::Mul(q, hn::LoadU(d, scales + i));
  }
};

// Calls run(scale) with the quickest of the above that gives the right codes. kUpperBits: only
// sign, exponent and top four fraction bits of a quotient matter.
template <bool kUpperBits, class Run>
size_t WithScale(const ScaleOperand& scale, const Run& run) {
  if (scale.per_value) return run(ScalePerValue{scale.values});
  const float one = scale.values[0];
  if (one == 1.0F) return run(Unscaled{});
  if constexpr (kUpperBits) {
    if (ByReciprocal::Serves(one)) return run(ByReciprocal(one));
  }
  return run(OneScale{one});
}

#endif  // HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace hif8
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
