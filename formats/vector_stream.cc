#include "formats/vector_codec.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/vector_stream.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, which selects the target.
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hif8 {
namespace HWY_NAMESPACE {

void Stream(const float* from, float* to, size_t count) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<float, 16> d;
  for (size_t i = 0; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    hn::Stream(hn::Load(d, from + i), d, to + i);
  }
  hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace hif8
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hif8 {

HWY_EXPORT(Stream);

void StreamFloats(const float* from, float* to, size_t count) {
  HWY_DYNAMIC_DISPATCH(Stream)(from, to, count);
}

}  // namespace hif8
#endif
