// Encode, Decode and QuantizeDequantize over spans equal the scalar reference of each format, on
// every instruction set, for every element type, kind of scale, length and alignment.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "formats/builtin.h"
#include "tests/formats/targets.h"

namespace hif8 {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

enum class Scales { kNone, kOne, kPerValue };

// Elements of `dtype` behind `offset` bytes, and their values as fp32.
struct Input {
  Input(DType type, std::vector<float> wanted, size_t offset)
      : dtype(type), values(std::move(wanted)), bytes(offset + values.size() * DTypeSize(type)) {
    data = bytes.data() + offset;
    ConvertFromFloat(dtype, values.data(), values.size(), data);
    ConvertToFloat(dtype, data, values.size(), values.data());
  }

  DType dtype;
  std::vector<float> values;
  std::vector<std::byte> bytes;
  std::byte* data;
};

// Mostly what tensors hold, and a few of everything else.
std::vector<float> Mixed(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> values(n);
  for (float& value : values) {
    const uint32_t kind = random() % 32;
    value = normal(random);
    if (kind == 0) value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (kind == 1) value = std::ldexp(value, -static_cast<int>(random() % 30));
    if (kind == 2) value = std::ldexp(value, static_cast<int>(random() % 30));
    if (kind == 3) value = 0;
    if (kind == 4 && random() % 8 == 0) value = value > 0 ? kInf : -kInf;
  }
  return values;
}

std::vector<float> SomeScales(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> exponent(-9, 9);
  std::vector<float> scales(n);
  for (float& scale : scales) scale = std::exp2(exponent(random));
  return scales;
}

class FormatSpans : public testing::TestWithParam<std::string> {
 protected:
  const NumberFormat& format() const { return BuiltinFormats().Get(GetParam()); }

  uint8_t Expected(float x, float scale, Overflow overflow = Overflow::kSaturate) const {
    const float q = x / scale;
    if (std::isfinite(x) && std::isinf(q) && overflow == Overflow::kSaturate) {
      return format().EncodeOne(std::copysign(format().MaxFinite(), x), overflow);
    }
    return format().EncodeOne(q, overflow);
  }

  void CheckEncode(const Input& input, Scales kind, uint32_t seed, Overflow overflow) const {
    const size_t n = input.values.size();
    std::vector<float> scales = SomeScales(n + 1, seed);
    if (kind == Scales::kNone) scales[0] = 1;
    const bool per_value = kind == Scales::kPerValue;
    std::vector<uint8_t> codes(n + 1, 0xA5);
    format().Encode(input.dtype, input.data, {scales.data(), per_value}, std::span(codes).first(n),
                    overflow);
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(codes[i], Expected(input.values[i], scales[per_value ? i : 0], overflow))
          << "element " << i << " of " << n << ": " << input.values[i] << " / "
          << scales[per_value ? i : 0];
    }
    ASSERT_EQ(codes[n], 0xA5) << "wrote behind the end";
  }
};

TEST_P(FormatSpans, EncodeEqualsTheReferenceAtEveryLength) {
  ForEachTarget([&] {
    for (const DType dtype : kTypes) {
      for (uint32_t n = 0; n <= 129; ++n) {
        const Input input(dtype, Mixed(n, n), n % 5);
        for (const Scales kind : {Scales::kNone, Scales::kOne, Scales::kPerValue}) {
          SCOPED_TRACE(DTypeName(dtype));
          CheckEncode(input, kind, n, n % 2 == 0 ? Overflow::kSaturate : Overflow::kInfinity);
          if (HasFatalFailure()) return;
        }
      }
    }
  });
}

// Every upper half of an fp32 with what can decide a tie below it.
TEST_P(FormatSpans, EncodeEqualsTheReferenceForEveryUpperHalf) {
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 65536; ++upper) {
    for (const uint32_t lower : {0x0000U, 0x0001U, 0x7FFFU, 0x8000U, 0xFFFFU}) {
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  std::vector<uint8_t> expected[2], codes(values.size());
  for (const float x : values) {
    expected[0].push_back(format().EncodeOne(x, Overflow::kSaturate));
    expected[1].push_back(format().EncodeOne(x, Overflow::kInfinity));
  }
  const float one = 1;
  ForEachTarget([&] {
    for (const Overflow overflow : {Overflow::kSaturate, Overflow::kInfinity}) {
      format().Encode(DType::kF32, reinterpret_cast<const std::byte*>(values.data()),
                      ScaleOperand::One(one), codes, overflow);
      const auto& right = expected[static_cast<size_t>(overflow)];
      for (size_t i = 0; i < codes.size(); ++i) ASSERT_EQ(codes[i], right[i]) << values[i];
    }
  });
}

TEST_P(FormatSpans, QuantizeDequantizeEqualsTheReferenceForEveryUpperHalf) {
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 65536; ++upper) {
    for (const uint32_t lower : {0x0000U, 0x0001U, 0x7FFFU, 0x8000U, 0xFFFFU}) {
      const float x = std::bit_cast<float>(upper << 16 | lower);
      if (!std::isnan(x)) values.push_back(x);
    }
  }
  std::vector<float> expected, y(values.size());
  for (const float scale : {1.0F, 0.3F}) {
    expected.clear();
    for (const float x : values) {
      const float value = format().DecodeTable()[Expected(x, scale)] * scale;
      expected.push_back(std::isinf(x) ? x : value == 0 ? 0.0F : value);
    }
    ForEachTarget([&] {
      format().QuantizeDequantize(values, ScaleOperand::One(scale), y);
      for (size_t i = 0; i < y.size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(expected[i]))
            << values[i] << " / " << scale;
      }
    });
  }
}

TEST_P(FormatSpans, DecodeOfManyValues) {
  constexpr size_t kCount = (size_t{1} << 20) + 1234;
  const std::span<const float> table = format().DecodeTable();
  std::vector<uint8_t> codes(kCount);
  for (size_t i = 0; i < kCount; ++i) codes[i] = static_cast<uint8_t>(i * 37 % table.size());
  const std::vector<float> scales = SomeScales(kCount, 23);
  std::vector<float> y(kCount + 4);
  ForEachTarget([&] {
    for (const size_t offset : {size_t{0}, size_t{3}}) {
      for (const bool per_value : {false, true}) {
        std::fill(y.begin(), y.end(), -7.0F);
        format().Decode(codes, {scales.data(), per_value}, std::span(y).subspan(offset, kCount));
        for (size_t i = 0; i < kCount; ++i) {
          const float expected = table[codes[i]] * scales[per_value ? i : 0];
          if (std::isnan(expected) && std::isnan(y[i + offset])) continue;
          ASSERT_EQ(y[i + offset], expected) << i;
        }
        ASSERT_EQ(y[offset + kCount], -7) << "wrote behind the end";
      }
    }
  });
}

// Quotients on and beside rounding boundaries: only an exact division gets all of them right.
TEST_P(FormatSpans, DividesExactly) {
  std::mt19937 random(3);
  std::vector<float> values;
  const float scale = 0.7071F;
  for (const float value : format().DecodeTable()) {
    if (!std::isfinite(value)) continue;
    for (const float next : {1.0625F, 1.125F, 1.25F, 1.5F}) {
      float x = value * next * scale;
      for (int i = 0; i < 4; ++i) x = std::nextafter(x, -kInf);
      for (int i = 0; i < 8; ++i) values.push_back(x = std::nextafter(x, kInf));
    }
  }
  ForEachTarget([&] {
    for (const float s : {scale, 3.0F, 1.0F / 3, 0x1p-126F, 0x1p-100F, 0x1p100F, 3.3e38F}) {
      std::vector<uint8_t> codes(values.size());
      format().Encode(DType::kF32, reinterpret_cast<const std::byte*>(values.data()),
                      ScaleOperand::One(s), codes);
      for (size_t i = 0; i < codes.size(); ++i) ASSERT_EQ(codes[i], Expected(values[i], s)) << s;
    }
  });
}

// The same around every multiple of 1/16, by scales of all kinds.
TEST_P(FormatSpans, DividesExactlyByManyScales) {
  std::mt19937 random(29);
  std::vector<float> scales = {0x1.000002p+0F, 0x1.fffffep-9F, 0x1.8p-5F,  0x1.7ffffep+3F,
                               0x1.800002p+9F, 0x1.4p-60F,     0x1.4p+60F, 0x1.4p-61F,
                               0x1.4p+61F,     0x1.2p+1F,      -0x1.2p+1F};
  while (scales.size() < 200) {
    scales.push_back(std::ldexp(
        std::bit_cast<float>(static_cast<uint32_t>(0x3F800000U | (random() & 0x7FFFFFU))),
        static_cast<int>(random() % 30) - 20));
  }
  std::vector<std::vector<float>> values(scales.size());
  std::vector<std::vector<uint8_t>> expected(scales.size());
  for (size_t k = 0; k < scales.size(); ++k) {
    for (const int exponent : {-23, -16, -9, -5, -1, 0, 4, 8, 15}) {
      for (int multiple = 16; multiple < 32; ++multiple) {
        float x = std::ldexp(static_cast<float>(multiple), exponent - 4) * scales[k];
        for (int i = 0; i < 4; ++i) x = std::nextafter(x, -kInf);
        for (int i = 0; i < 8; ++i) values[k].push_back(x = std::nextafter(x, kInf));
      }
    }
    for (const float x : values[k]) expected[k].push_back(Expected(x, scales[k]));
  }
  ForEachTarget([&] {
    for (size_t k = 0; k < scales.size(); ++k) {
      std::vector<uint8_t> codes(values[k].size());
      format().Encode(DType::kF32, reinterpret_cast<const std::byte*>(values[k].data()),
                      ScaleOperand::One(scales[k]), codes);
      for (size_t i = 0; i < codes.size(); ++i) {
        ASSERT_EQ(codes[i], expected[k][i]) << values[k][i] << " / " << scales[k];
      }
      std::vector<float> y(values[k].size());
      format().QuantizeDequantize(values[k], ScaleOperand::One(scales[k]), y);
      for (size_t i = 0; i < y.size(); ++i) {
        ASSERT_EQ(y[i], format().DecodeTable()[expected[k][i]] * scales[k])
            << values[k][i] << " / " << scales[k];
      }
    }
  });
}

TEST_P(FormatSpans, AQuotientThatOverflowsSaturates) {
  const std::vector<float> values(70, 3e38F);
  const float scale = 0x1p-20F;
  std::vector<uint8_t> codes(values.size());
  ForEachTarget([&] {
    format().Encode(DType::kF32, reinterpret_cast<const std::byte*>(values.data()),
                    ScaleOperand::One(scale), codes);
    for (const uint8_t code : codes) {
      ASSERT_EQ(format().DecodeTable()[code], format().MaxFinite());
    }
  });
}

TEST_P(FormatSpans, EveryHalfPrecisionPatternAgreesWithItsFp32) {
  std::vector<uint16_t> patterns(65536);
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
  const auto* bytes = reinterpret_cast<const std::byte*>(patterns.data());
  ForEachTarget([&] {
    for (const DType dtype : {DType::kF16, DType::kBF16}) {
      std::vector<float> floats(patterns.size());
      ConvertToFloat(dtype, bytes, floats.size(), floats.data());
      for (const float scale : {1.0F, 0.3F}) {
        std::vector<uint8_t> narrow(patterns.size()), wide(patterns.size());
        format().Encode(dtype, bytes, ScaleOperand::One(scale), narrow);
        format().Encode(DType::kF32, reinterpret_cast<const std::byte*>(floats.data()),
                        ScaleOperand::One(scale), wide);
        ASSERT_EQ(narrow, wide) << DTypeName(dtype) << " / " << scale;
      }
    }
  });
}

TEST_P(FormatSpans, DecodeIsOneProduct) {
  const std::span<const float> table = format().DecodeTable();
  ForEachTarget([&] {
    for (size_t n = 0; n <= 2 * table.size() + 129; ++n) {
      if (n > 129 && n < 2 * table.size()) continue;
      std::vector<uint8_t> codes(n);
      for (size_t i = 0; i < n; ++i) codes[i] = static_cast<uint8_t>(i * 37 % table.size());
      const std::vector<float> scales = SomeScales(n + 1, static_cast<uint32_t>(n));
      for (const bool per_value : {false, true}) {
        std::vector<float> y(n + 1, -7);
        format().Decode(codes, {scales.data(), per_value}, std::span(y).first(n));
        for (size_t i = 0; i < n; ++i) {
          const float expected = table[codes[i]] * scales[per_value ? i : 0];
          if (std::isnan(expected)) {
            ASSERT_TRUE(std::isnan(y[i])) << int{codes[i]};
          } else {
            ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(expected))
                << int{codes[i]};
          }
        }
        ASSERT_EQ(y[n], -7) << "wrote behind the end";
      }
    }
  });
}

TEST_P(FormatSpans, QuantizeDequantizePassesSpecialsAndMakesPlusZero) {
  ForEachTarget([&] {
    for (uint32_t n = 0; n <= 129; ++n) {
      const std::vector<float> x = Mixed(n, n + 1000);
      const std::vector<float> scales = SomeScales(n + 1, n);
      for (const bool per_value : {false, true}) {
        std::vector<float> y(n), in_place = x;
        format().QuantizeDequantize(x, {scales.data(), per_value}, y);
        format().QuantizeDequantize(in_place, {scales.data(), per_value}, in_place);
        for (size_t i = 0; i < n; ++i) {
          const float scale = scales[per_value ? i : 0];
          const float value = format().DecodeTable()[Expected(x[i], scale)] * scale;
          const float expected = !std::isfinite(x[i]) ? x[i] : value == 0 ? 0.0F : value;
          if (std::isnan(expected)) {
            ASSERT_TRUE(std::isnan(y[i]) && std::isnan(in_place[i]));
            continue;
          }
          ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(expected)) << x[i];
          ASSERT_EQ(std::bit_cast<uint32_t>(in_place[i]), std::bit_cast<uint32_t>(expected));
        }
      }
    }
  });
}

// Longer than any piece that an implementation may cut its work into.
TEST_P(FormatSpans, LongRuns) {
  const Input input(DType::kF32, Mixed(10007, 5), 0);
  ForEachTarget([&] {
    for (const Scales kind : {Scales::kNone, Scales::kOne, Scales::kPerValue}) {
      CheckEncode(input, kind, 17, Overflow::kSaturate);
    }
    std::vector<float> y = input.values;
    const std::vector<float> scales = SomeScales(y.size(), 19);
    format().QuantizeDequantize(y, ScaleOperand::PerValue(scales.data()), y);
    for (size_t i = 0; i < y.size(); ++i) {
      const float x = input.values[i];
      if (!std::isfinite(x)) continue;
      ASSERT_EQ(y[i], format().DecodeTable()[Expected(x, scales[i])] * scales[i]) << x;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, FormatSpans, testing::ValuesIn(BuiltinFormats().names()),
                         [](const auto& tested) { return tested.param; });

TEST(Targets, EachIsReallyTaken) {
  std::vector<int64_t> taken;
  ForEachTarget([&] { taken.push_back(hwy::SupportedTargets()); });
  EXPECT_GE(taken.size(), 2U);
  std::sort(taken.begin(), taken.end());
  EXPECT_EQ(std::unique(taken.begin(), taken.end()), taken.end());
}

}  // namespace
}  // namespace hif8
