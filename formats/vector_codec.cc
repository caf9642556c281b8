#include "formats/vector_codec.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/vector_codec.cc"
#define HWY_WANT_AVX3_DL
#include "hwy/foreach_target.h"
// Behind foreach_target.h, which selects the target.
#include "formats/vector_source-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hif8 {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void EncodeRamps(const EncodeJob& job, const CodeRamps&, const RankTables&) {
  EncodeReference(job, 0, job.count);
}
void EncodeInt8(const EncodeJob& job) { EncodeReference(job, 0, job.count); }

#else

namespace hn = hwy::HWY_NAMESPACE;

// The upper halves of x / scale, sticky where ties are even.
template <Ties kTies, class Source, class Scale>
HWY_INLINE hn::Vec<DHalf> LoadHalves(const Source& source, const Scale& scale, size_t i) {
  const DFloat d;
  const DHalf dh;
  const size_t n = hn::Lanes(d);
  const auto low = hn::BitCast(dh, scale.Divide(d, source.Load(d, i), i));
  const auto high = hn::BitCast(dh, scale.Divide(d, source.Load(d, i + n), i + n));
  const auto upper = hn::ConcatOdd(dh, high, low);
  if (kTies == Ties::kAway) return upper;
  return hn::Or(upper, hn::Min(hn::ConcatEven(dh, high, low), hn::Set(dh, 1)));
}

template <Ties kTies>
HWY_INLINE hn::Vec<DHalf> LoadHalves(const FromBF16& source, Unscaled, size_t i) {
  const DHalf d;
  return hn::LoadU(d, reinterpret_cast<const uint16_t*>(source.x) + i);
}

// Here the even and the odd elements are two vectors of fp32 already, without moving a lane.
template <Ties kTies>
HWY_INLINE hn::Vec<DHalf> LoadHalves(const FromBF16& source, const ByReciprocal& scale, size_t i) {
  static_assert(kTies == Ties::kAway, "nothing below the upper halves is kept");
  const DFloat d;
  const DWord dw;
  const auto upper_half = hn::Set(dw, 0xFFFF0000U);
  const auto both =
      hn::BitCast(dw, hn::LoadU(DHalf(), reinterpret_cast<const uint16_t*>(source.x) + i));
  const auto divided = [&](hn::Vec<DWord> bits) HWY_ATTR {
    return hn::BitCast(dw, scale.Divide(d, hn::BitCast(d, bits), i));
  };
  const auto even = divided(hn::ShiftLeft<16>(both));
  const auto odd = divided(hn::And(both, upper_half));
  return hn::BitCast(DHalf(), hn::OrAnd(hn::ShiftRight<16>(even), odd, upper_half));
}

// Sign and rank - 1 of finite numbers as the codes have them; all ones below the sign for zero, so
// that one more makes a rank of both.
template <class Format>
HWY_INLINE hn::Vec<DHalf> RanksBelow(const CodeRamps& ramps, uint16_t largest,
                                     hn::Vec<DHalf> number, hn::Vec<DHalf> magnitude) {
  const DHalf d;
  const auto x = hn::SaturatedSub(hn::Min(magnitude, hn::Set(d, largest)), hn::Set(d, ramps.base));
  const auto ramp0 = hn::SaturatedSub(x, hn::Set(d, ramps.start[0]));
  const auto ramp1 =
      hn::Min(hn::SaturatedSub(x, hn::Set(d, ramps.start[1])), hn::Set(d, ramps.length[1]));
  const auto ramp2 =
      hn::Min(hn::SaturatedSub(x, hn::Set(d, ramps.start[2])), hn::Set(d, ramps.length[2]));
  const auto steep = hn::Add(ramp1, hn::Add(ramp2, ramp2));
  auto sum = hn::Add(hn::Add(x, ramp0), hn::Add(steep, steep));
  if (Format::kTies == Ties::kEven) {
    // Half a rank, one less where the rank below is even.
    const auto even = hn::And(hn::ShiftRight<7>(sum), hn::Set(d, 1));
    sum = hn::Add(sum, hn::Sub(hn::Set(d, 64), even));
  }
  const auto below = hn::ShiftRight<7>(sum);
  const auto sign = hn::ShiftRight<16 - Format::kBits>(number);
  const auto sign_bit = hn::Set(d, uint16_t{1} << (Format::kBits - 1));
  // Both are below 2^15, where a signed comparison is cheaper.
  const hn::RebindToSigned<DHalf> di;
  const auto is_zero = hn::RebindMask(
      d, hn::Lt(hn::BitCast(di, magnitude), hn::Set(di, static_cast<int16_t>(ramps.smallest))));
  const auto ones = hn::Set(d, (uint16_t{1} << Format::kBits) - 1);
  if (Format::kNegativeZero) {
    return hn::Xor(hn::IfThenElse(is_zero, ones, below), hn::And(sign, sign_bit));
  }
  return hn::IfThenElse(is_zero, ones, hn::OrAnd(below, sign, sign_bit));
}

template <class Format>
HWY_INLINE hn::Vec<DCode> CodesOfRanks(const CodeRamps& ramps, hn::Vec<DCode> below) {
  const DCode d;
  const DHalf dh;
  const auto ranks = hn::Add(below, hn::Set(d, 1));
  // With eight ranks there is nothing to flip, but a carry out of a zero's ones to drop.
  if (Format::kBits == 4) return hn::And(ranks, hn::Set(d, 0x0F));
  const auto octet =
      hn::And(hn::BitCast(d, hn::ShiftRight<3>(hn::BitCast(dh, ranks))), hn::Set(d, 0x0F));
  return hn::Xor(ranks, hn::TableLookupBytes(hn::LoadDup128(d, ramps.flip.data()), octet));
}

// Formats as the kernel tells them apart; all else is in the ramps.
struct Tapered {
  static constexpr Ties kTies = Ties::kAway;
  static constexpr bool kNegativeZero = false;
  static constexpr int kBits = 8;
};
struct Byte {
  static constexpr Ties kTies = Ties::kEven;
  static constexpr bool kNegativeZero = true;
  static constexpr int kBits = 8;
};
struct Nibble : Byte {
  static constexpr int kBits = 4;
};

// Codes of ramps. False when a NaN or an infinity is among the numbers: they are rare, and the
// reference knows them, also those that the division made.
template <class Format>
struct RampKernel {
  static constexpr bool kUpperBits = Format::kTies == Ties::kAway;

  CodeRamps ramps;
  uint16_t largest;

  template <class Source, class Scale>
  HWY_INLINE bool EncodeOneVector(const Source& source, const Scale& scale, size_t i,
                                  uint8_t* codes) const {
    const DCode d;
    const DHalf dh;
    const hn::RebindToSigned<DHalf> di;
    const auto low = LoadHalves<Format::kTies>(source, scale, i);
    const auto high = LoadHalves<Format::kTies>(source, scale, i + hn::Lanes(dh));
    const auto low_magnitude = hn::And(low, hn::Set(dh, 0x7FFF));
    const auto high_magnitude = hn::And(high, hn::Set(dh, 0x7FFF));
    const auto most = hn::BitCast(di, hn::Max(low_magnitude, high_magnitude));
    if (HWY_UNLIKELY(!hn::AllFalse(di, hn::Gt(most, hn::Set(di, 0x7F7F))))) return false;
    const auto low_below = RanksBelow<Format>(ramps, largest, low, low_magnitude);
    const auto high_below = RanksBelow<Format>(ramps, largest, high, high_magnitude);
    const auto below = hn::ConcatEven(d, hn::BitCast(d, high_below), hn::BitCast(d, low_below));
    hn::StoreU(CodesOfRanks<Format>(ramps, below), d, codes);
    return true;
  }
};

#if HWY_TARGET == HWY_AVX3_DL

// The same codes by look-ups, ties away. Exponents and fractions are bytes: 64 elements at a time.
struct TableKernel {
  static constexpr bool kUpperBits = true;

  RankTables tables;

  static HWY_INLINE hn::Vec<DCode> LookUp64(const uint8_t* table, hn::Vec<DCode> index) {
    return {_mm512_permutexvar_epi8(index.raw, hn::LoadU(DCode(), table).raw)};
  }
  static HWY_INLINE hn::Vec<DCode> LookUp128(const uint8_t* table, hn::Vec<DCode> index) {
    const auto low = hn::LoadU(DCode(), table);
    const auto high = hn::LoadU(DCode(), table + 64);
    return {_mm512_permutex2var_epi8(low.raw, index.raw, high.raw)};
  }

  template <class Source, class Scale>
  HWY_INLINE bool EncodeOneVector(const Source& source, const Scale& scale, size_t i,
                                  uint8_t* codes) const {
    const DCode d;
    const DHalf dh;
    const auto low = LoadHalves<Ties::kAway>(source, scale, i);
    const auto high = LoadHalves<Ties::kAway>(source, scale, i + hn::Lanes(dh));
    const auto sign = hn::ConcatOdd(d, hn::BitCast(d, high), hn::BitCast(d, low));
    // Without the sign, the exponent is a byte, and the fraction another.
    const auto low_bits = hn::BitCast(d, hn::Add(low, low));
    const auto high_bits = hn::BitCast(d, hn::Add(high, high));
    const auto exponent = hn::ConcatOdd(d, high_bits, low_bits);
    const auto fraction = hn::BitCast(dh, hn::ConcatEven(d, high_bits, low_bits));
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::Eq(exponent, hn::Set(d, 0xFF))))) return false;
    const auto entry = hn::Min(hn::SaturatedSub(exponent, hn::Set(d, tables.lowest)),
                               hn::Set(d, RankTables::kExponents - 1));
    const auto top_bits = hn::BitCast(d, hn::ShiftRight<8 - RankTables::kFractionBits>(fraction));
    const auto pattern = LookUp64(tables.pattern.data(), entry);
    const auto rise = LookUp128(tables.rise.data(), hn::OrAnd(pattern, top_bits, hn::Set(d, 0x0F)));
    const auto rank = hn::Add(LookUp64(tables.rank.data(), entry), rise);
    const auto code = LookUp128(tables.code.data(), rank);
    const auto with_sign = hn::OrAnd(code, sign, hn::Set(d, 0x80));
    // Zero has no sign.
    hn::StoreU(hn::IfThenElseZero(hn::Ne(rank, hn::Zero(d)), with_sign), d, codes);
    return true;
  }
};

#endif  // HWY_AVX3_DL

// Integers -127 ... 127, NaN as 0.
struct IntegerKernel {
  static constexpr bool kUpperBits = false;

  template <class Source, class Scale>
  HWY_INLINE hn::Vec<DHalf> LoadIntegers(const Source& source, const Scale& scale, size_t i) const {
    const DFloat d;
    const DHalf dh;
    const size_t n = hn::Lanes(d);
    const auto round = [&](size_t at) HWY_ATTR {
      const auto x = scale.Divide(d, source.Load(d, at), at);
      const auto number = hn::IfThenElseZero(hn::Eq(x, x), x);
      const auto clamped = hn::Min(hn::Max(number, hn::Set(d, -127.0F)), hn::Set(d, 127.0F));
      return hn::BitCast(dh, hn::NearestInt(clamped));
    };
    const auto low = round(i);
    return hn::ConcatEven(dh, round(i + n), low);
  }

  template <class Source, class Scale>
  HWY_INLINE bool EncodeOneVector(const Source& source, const Scale& scale, size_t i,
                                  uint8_t* codes) const {
    const DCode d;
    const auto low = hn::BitCast(d, LoadIntegers(source, scale, i));
    const auto high = hn::BitCast(d, LoadIntegers(source, scale, i + hn::Lanes(DHalf())));
    hn::StoreU(hn::ConcatEven(d, high, low), d, codes);
    return true;
  }
};

// Encodes whole vectors from element i on, up to one that the kernel leaves to the reference;
// returns where that is. No call is in the loop, so that constants stay in registers.
template <class Kernel, class Source, class Scale>
HWY_NOINLINE size_t EncodeUntilSpecial(const EncodeJob& job, const Kernel& shared_kernel,
                                       const Source source, const Scale scale, size_t i) {
  // Copied, so that stores to the codes cannot be taken to change it.
  const Kernel kernel = shared_kernel;
  uint8_t* const codes = job.codes;
  const size_t count = job.count;
  const size_t n = hn::Lanes(DCode());
  while (i + n <= count && kernel.EncodeOneVector(source, scale, i, codes + i)) i += n;
  return i;
}

// Encodes whole vectors from the front; returns how many elements that were.
template <class Kernel, class Source, class Scale>
size_t EncodeVectors(const EncodeJob& job, const Kernel& kernel, Source source, Scale scale) {
  const size_t n = hn::Lanes(DCode());
  size_t i = 0;
  while (true) {
    i = EncodeUntilSpecial(job, kernel, source, scale, i);
    if (i + n > job.count) return i;
    EncodeReference(job, i, i + n);
    i += n;
  }
}

template <class Kernel, class Source>
size_t EncodeScaled(const EncodeJob& job, const Kernel& kernel, Source source) {
  return WithScale<Kernel::kUpperBits>(
      job.scale, [&](auto scale) { return EncodeVectors(job, kernel, source, scale); });
}

template <class Kernel>
size_t EncodeFront(const EncodeJob& job, const Kernel& kernel) {
  switch (job.dtype) {
    case DType::kF16:
      return EncodeScaled(job, kernel, FromF16{reinterpret_cast<const hwy::float16_t*>(job.x)});
    case DType::kBF16:
      return EncodeScaled(job, kernel, FromBF16{reinterpret_cast<const hwy::bfloat16_t*>(job.x)});
    default:
      return EncodeScaled(job, kernel, FromF32{reinterpret_cast<const float*>(job.x)});
  }
}

// What is left when whole vectors are done goes through one padded vector.
template <class Kernel>
void EncodeAll(const EncodeJob& job, const Kernel& kernel) {
  const size_t done = EncodeFront(job, kernel);
  const size_t rest = job.count - done;
  if (rest == 0) return;
  constexpr size_t kMost = 64;
  alignas(64) std::byte x[kMost * sizeof(float)] = {};
  float scales[kMost];
  uint8_t codes[kMost];
  const size_t size = DTypeSize(job.dtype);
  std::memcpy(x, job.x + done * size, rest * size);
  EncodeJob tail = job;
  tail.x = x;
  tail.codes = codes;
  tail.count = hn::Lanes(DCode());
  if (job.scale.per_value) {
    for (size_t i = 0; i < kMost; ++i) scales[i] = i < rest ? job.scale.values[done + i] : 1.0F;
    tail.scale.values = scales;
  }
  EncodeFront(tail, kernel);
  std::memcpy(job.codes + done, codes, rest);
}

void EncodeRamps(const EncodeJob& job, const CodeRamps& ramps,
                 [[maybe_unused]] const RankTables& tables) {
  const uint16_t largest = ramps.Largest(job.overflow);
  if (ramps.ties == Ties::kAway) {
#if HWY_TARGET == HWY_AVX3_DL
    EncodeAll(job, TableKernel{tables});
#else
    EncodeAll(job, RampKernel<Tapered>{ramps, largest});
#endif
  } else if (ramps.bits == 8) {
    EncodeAll(job, RampKernel<Byte>{ramps, largest});
  } else {
    EncodeAll(job, RampKernel<Nibble>{ramps, largest});
  }
}

void EncodeInt8(const EncodeJob& job) { EncodeAll(job, IntegerKernel{}); }

#endif  // HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace hif8
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hif8 {

HWY_EXPORT(EncodeRamps);
HWY_EXPORT(EncodeInt8);

void EncodeByRamps(const EncodeJob& job, const CodeRamps& ramps, const RankTables& tables) {
  HWY_DYNAMIC_DISPATCH(EncodeRamps)(job, ramps, tables);
}

void EncodeIntegers(const EncodeJob& job) { HWY_DYNAMIC_DISPATCH(EncodeInt8)(job); }

}  // namespace hif8
#endif
