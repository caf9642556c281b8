// The vector paths against the scalar reference for all 2^32 fp32 patterns: encoding in both
// overflow modes, quantizing and dequantizing in one go.
#include <array>
#include <atomic>
#include <bit>
#include <cmath>

#include "formats/builtin.h"
#include "formats/hif8.h"
#include "lib/core/parallel.h"
#include "tests/formats/targets.h"

namespace hif8 {
namespace {

constexpr size_t kPiece = size_t{1} << 16;

// Compares pieces [begin, end) of 2^16 patterns each, every `step`-th.
void Compare(size_t step, Overflow overflow) {
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  std::atomic<uint64_t> wrong = 0;
  std::atomic<uint32_t> example = 0;
  ParallelFor(kPiece / step, [&](size_t index) {
    const auto first = static_cast<uint32_t>(index * step * kPiece);
    std::vector<float> x(kPiece);
    std::vector<uint8_t> codes(kPiece);
    for (uint32_t i = 0; i < kPiece; ++i) x[i] = std::bit_cast<float>(first + i);
    const float one = 1;
    format.Encode(DType::kF32, reinterpret_cast<const std::byte*>(x.data()), ScaleOperand::One(one),
                  codes, overflow);
    std::vector<float> y(kPiece);
    if (overflow == Overflow::kSaturate) {
      format.QuantizeDequantize(x, ScaleOperand::One(one), y);
    }
    for (uint32_t i = 0; i < kPiece; ++i) {
      const uint8_t code = EncodeHif8(x[i], overflow);
      const float value = format.DecodeTable()[code];
      const bool value_right = overflow == Overflow::kInfinity || y[i] == value ||
                               (std::isnan(y[i]) && std::isnan(value));
      if (codes[i] == code && value_right) continue;
      ++wrong;
      example = first + i;
    }
  });
  EXPECT_EQ(wrong, 0U) << "for one: " << std::hex << example;
}

TEST(Hif8Exhaustive, Saturating) { Compare(1, Overflow::kSaturate); }
TEST(Hif8Exhaustive, ToInfinity) { Compare(1, Overflow::kInfinity); }

// The lower half of a pattern takes all values here too, the upper half every 61st.
TEST(Hif8Exhaustive, OtherTargetsInSteps) {
  ForEachTarget([&] {
    Compare(61, Overflow::kSaturate);
    Compare(61, Overflow::kInfinity);
  });
}

// One scale for a run is divided by with multiplications where the machine has them fused, a scale
// for each value with a division: for all significands of a scale, around each multiple of 1/16.
TEST(Hif8Exhaustive, DividesByEverySignificand) {
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  constexpr uint32_t kSignificands = 1U << 23;
  constexpr size_t kTogether = 4096;
  ForEachTarget([&] {
    // The plainest targets divide in both cases.
    const size_t step = hwy::SupportedTargets() & (HWY_AVX3_DL | HWY_AVX2 | HWY_NEON) ? 1 : 1021;
    std::atomic<uint64_t> wrong = 0;
    ParallelFor(kSignificands / kTogether / step, [&](size_t task) {
      for (size_t i = 0; i < kTogether; ++i) {
        const auto bits = static_cast<uint32_t>(0x3F800000 + task * step * kTogether + i);
        const auto scale = std::bit_cast<float>(bits);
        std::array<float, 80> x, scales;
        std::array<uint8_t, 80> codes, divided;
        scales.fill(scale);
        for (uint32_t k = 0; k < 80; ++k) {
          const uint32_t sixteenths = 16 + k / 5;
          const float product = static_cast<float>(sixteenths) / 16 * scale;
          x[k] = std::bit_cast<float>(std::bit_cast<uint32_t>(product) + k % 5 - 2);
        }
        const auto* data = reinterpret_cast<const std::byte*>(x.data());
        format.Encode(DType::kF32, data, ScaleOperand::One(scale), codes);
        format.Encode(DType::kF32, data, ScaleOperand::PerValue(scales.data()), divided);
        if (codes != divided) ++wrong;
      }
    });
    EXPECT_EQ(wrong, 0U);
  });
}

}  // namespace
}  // namespace hif8
