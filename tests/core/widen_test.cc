// Every fp16 and bf16 value on every instruction set that this machine can run, against the bits
// that IEEE 754 says.
#include "lib/core/widen.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace hif8 {
namespace {

float PlainHalf(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

float PlainBrain(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

void Check(void (*widen)(const std::byte*, size_t, float*), float (*plain)(uint16_t)) {
  constexpr size_t kCount = 65536;
  std::vector<std::byte> source(2 * kCount + 1);  // at an odd address
  for (size_t i = 0; i < kCount; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    std::memcpy(&source[1 + 2 * i], &bits, 2);
  }
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    for (const size_t n : {size_t{0}, size_t{1}, size_t{77}, kCount}) {
      std::vector<float> found(n + 1, 7.0F);
      widen(source.data() + 1, n, found.data());
      EXPECT_EQ(found[n], 7.0F);
      for (size_t i = 0; i < n; ++i) {
        const float expected = plain(static_cast<uint16_t>(i));
        const bool same = std::isnan(expected) ? std::isnan(found[i])
                                               : std::bit_cast<uint32_t>(expected) ==
                                                     std::bit_cast<uint32_t>(found[i]);
        ASSERT_TRUE(same) << i << ": " << found[i] << ", expected " << expected;
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(Widen, EveryHalf) { Check(WidenF16, PlainHalf); }
TEST(Widen, EveryBrainFloat) { Check(WidenBF16, PlainBrain); }

}  // namespace
}  // namespace hif8
