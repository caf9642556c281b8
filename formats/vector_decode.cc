#include <bit>

#include "formats/vector_codec.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/vector_decode.cc"
#define HWY_WANT_AVX3_DL
#include "hwy/foreach_target.h"
// Behind foreach_target.h, which selects the target.
#include "formats/vector_source-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hif8 {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

size_t Decode(const DecodeJob&, const ByteTables&) { return 0; }

#else

namespace hn = hwy::HWY_NAMESPACE;

// Below 16 for codes k ... k + 15, with the top bit set for all others.
HWY_INLINE hn::Vec<DCode> IndexIn16(hn::Vec<DCode> codes, size_t k) {
  const DCode d;
  const auto from_k = hn::Xor(codes, hn::Set(d, static_cast<uint8_t>(k)));
  const auto index = hn::SaturatedAdd(from_k, hn::Set(d, 0x70));
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128
  return index;  // bits 4 to 6 are not looked at
#else
  return hn::And(index, hn::Set(d, 0x8F));
#endif
}

// Tables of 16 entries each, of which the upper bits of a code select one. An index with its top
// bit set is out of all of them, and counts as zero.
template <size_t kSize>
HWY_INLINE void LookUp(const ByteTables& tables, hn::Vec<DCode> codes, hn::Vec<DCode>& low,
                       hn::Vec<DCode>& high) {
  const DCode d;
  low = hn::Zero(d);
  high = hn::Zero(d);
  for (size_t k = 0; k < kSize; k += 16) {
    const auto index = IndexIn16(codes, k);
    low = hn::Or(low, hn::TableLookupBytesOr0(hn::LoadDup128(d, tables.low.data() + k), index));
    high = hn::Or(high, hn::TableLookupBytesOr0(hn::LoadDup128(d, tables.high.data() + k), index));
  }
}

// Interleaving works in blocks of 16 bytes. In this order of groups of four bytes, two rounds of it
// leave them where they were.
HWY_INLINE auto OrderForInterleaving() {
  const DWord d;
  const size_t blocks = (hn::Lanes(d) + 3) / 4;
  alignas(64) uint32_t order[hn::MaxLanes(DWord())];
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    order[i] = static_cast<uint32_t>(i % 4 * blocks + i / 4);
  }
  return hn::SetTableIndices(d, order);
}

template <bool kStream>
HWY_INLINE void Put(hn::Vec<DFloat> y, float* to) {
  const DFloat d;
  if (kStream) {
    hn::Stream(y, d, to);
  } else {
    hn::StoreU(y, d, to);
  }
}

template <size_t kSize, bool kStream, class Scale>
HWY_NOINLINE size_t DecodeVectors(const DecodeJob& job, const ByteTables& shared_tables,
                                  const Scale scale) {
  const DCode d;
  const DHalf dh;
  const DFloat df;
  const ByteTables tables = shared_tables;
  const uint8_t* const codes = job.codes;
  float* const y = job.y;
  const size_t count = job.count;
  const size_t n = hn::Lanes(d);
  const size_t step = hn::Lanes(df);
  const auto sign_bit = hn::Set(d, tables.sign);
  const auto order = OrderForInterleaving();
  const auto put = [&](hn::Vec<DHalf> bits, size_t i) HWY_ATTR {
    const auto value = hn::BitCast(df, bits);
    Put<kStream>(scale.Multiply(df, value, i), y + i);
  };
  size_t i = 0;
  for (; i + n <= count; i += n) {
    const auto ordered =
        hn::BitCast(d, hn::TableLookupLanes(hn::BitCast(DWord(), hn::LoadU(d, codes + i)), order));
    const auto sign = hn::And(ordered, sign_bit);
    hn::Vec<DCode> low, high;
    LookUp<kSize>(tables, hn::Xor(ordered, sign), low, high);
    const auto only_sign = hn::Eq(ordered, sign_bit);
    low = hn::IfThenElse(only_sign, hn::Set(d, tables.low_of_sign), low);
    high = hn::IfThenElse(only_sign, hn::Set(d, tables.high_of_sign), hn::Or(high, sign));
    const auto first = hn::BitCast(dh, hn::InterleaveLower(d, low, high));
    const auto second = hn::BitCast(dh, hn::InterleaveUpper(d, low, high));
    const auto zero = hn::Zero(dh);
    put(hn::InterleaveLower(dh, zero, first), i);
    put(hn::InterleaveUpper(dh, zero, first), i + step);
    put(hn::InterleaveLower(dh, zero, second), i + 2 * step);
    put(hn::InterleaveUpper(dh, zero, second), i + 3 * step);
  }
  if (kStream) hwy::FlushStream();
  return i;
}

template <size_t kSize, bool kStream>
size_t DecodeScaled(const DecodeJob& job, const ByteTables& tables) {
  if (job.scale.per_value) {
    return DecodeVectors<kSize, kStream>(job, tables, ScalePerValue{job.scale.values});
  }
  return DecodeVectors<kSize, kStream>(job, tables, OneScale{job.scale.values[0]});
}

template <size_t kSize>
size_t DecodeSized(const DecodeJob& job, const ByteTables& tables) {
  return job.past_caches ? DecodeScaled<kSize, true>(job, tables)
                         : DecodeScaled<kSize, false>(job, tables);
}

size_t Decode(const DecodeJob& job, const ByteTables& tables) {
  switch (tables.size) {
    case 16:
      return DecodeSized<16>(job, tables);
    case 128:
      return DecodeSized<128>(job, tables);
    default:
      return DecodeSized<256>(job, tables);
  }
}

#endif  // HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace hif8
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hif8 {

ByteTables MakeByteTables(std::span<const float> values) {
  const auto upper_half = [&](size_t code) {
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(values[code]) >> 16);
  };
  ByteTables tables;
  const size_t half = values.size() / 2;
  bool negates = values.size() == 256;
  for (size_t code = 1; code < half && negates; ++code) {
    negates = (upper_half(code) ^ upper_half(half + code)) == 0x8000;
  }
  tables.size = negates ? half : values.size();
  for (size_t code = 0; code < tables.size; ++code) {
    tables.low[code] = static_cast<uint8_t>(upper_half(code));
    tables.high[code] = static_cast<uint8_t>(upper_half(code) >> 8);
  }
  if (negates) tables.sign = 0x80;
  const size_t only_sign = negates ? half : 0;
  tables.low_of_sign = static_cast<uint8_t>(upper_half(only_sign));
  tables.high_of_sign = static_cast<uint8_t>(upper_half(only_sign) >> 8);
  return tables;
}

HWY_EXPORT(Decode);

size_t DecodeByTables(const DecodeJob& job, const ByteTables& tables) {
  return HWY_DYNAMIC_DISPATCH(Decode)(job, tables);
}

}  // namespace hif8
#endif
