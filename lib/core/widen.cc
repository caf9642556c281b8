#include "lib/core/widen.h"

#include <Eigen/Core>
#include <cstdint>
#include <cstring>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/core/widen.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, which selects the target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hif8 {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Half is the vector's element type, One the same type as a scalar, for what fills no vector.
// Where the processor has no instruction for fp16, Highway's replacement takes infinity for 65536.
constexpr bool kVectorF16 = !(HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2) && HWY_TARGET != HWY_EMU128;

template <typename Half, typename One>
HWY_INLINE void Widen(const std::byte* src, size_t n, float* dst) {
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::Rebind<Half, decltype(d)> half;
  const hn::Repartition<uint8_t, decltype(half)> bytes;  // values may begin at any address
  const auto* from = reinterpret_cast<const uint8_t*>(src);
  const size_t end = kVectorF16 || std::is_same_v<Half, hwy::bfloat16_t> ? n : 0;
  for (; i + hn::Lanes(d) <= end; i += hn::Lanes(d)) {
    const auto values = hn::BitCast(half, hn::LoadU(bytes, from + 2 * i));
    hn::StoreU(hn::PromoteTo(d, values), d, dst + i);
  }
#endif
  for (; i < n; ++i) {
    One value;
    std::memcpy(&value, src + 2 * i, sizeof(value));
    dst[i] = static_cast<float>(value);
  }
}

void WidenF16V(const std::byte* src, size_t n, float* dst) {
  Widen<hwy::float16_t, Eigen::half>(src, n, dst);
}
void WidenBF16V(const std::byte* src, size_t n, float* dst) {
  Widen<hwy::bfloat16_t, Eigen::bfloat16>(src, n, dst);
}

}  // namespace HWY_NAMESPACE
}  // namespace hif8
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hif8 {

HWY_EXPORT(WidenF16V);
HWY_EXPORT(WidenBF16V);

void WidenF16(const std::byte* src, size_t n, float* dst) {
  HWY_DYNAMIC_DISPATCH(WidenF16V)(src, n, dst);
}
void WidenBF16(const std::byte* src, size_t n, float* dst) {
  HWY_DYNAMIC_DISPATCH(WidenBF16V)(src, n, dst);
}

}  // namespace hif8
#endif
