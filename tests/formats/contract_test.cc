// What every registered number format promises, over all of its codes.
#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <set>

#include "formats/builtin.h"
#include "tests/formats/format_traits.h"
#include "tests/formats/golden.h"

namespace hif8 {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class FormatContract : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    format_ = &BuiltinFormats().Get(GetParam());
    traits_ = FindTraits(GetParam());
    ASSERT_NE(traits_, nullptr) << "write down what " << GetParam() << " promises";
  }

  float Rounded(float x, Overflow overflow = Overflow::kSaturate) const {
    return format_->DecodeTable()[format_->EncodeOne(x, overflow)];
  }

  // All finite values that are ever written, rising.
  std::vector<float> Values() const {
    std::vector<float> values;
    for (const float value : format_->DecodeTable()) {
      if (std::isfinite(value) && (traits_->unused == 0 || value != traits_->unused)) {
        values.push_back(value);
      }
    }
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
  }

  const NumberFormat* format_ = nullptr;
  const FormatTraits* traits_ = nullptr;
};

bool Same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

TEST_P(FormatContract, NamesAndLimits) {
  EXPECT_EQ(format_->name(), GetParam());
  EXPECT_FALSE(format_->description().empty());
  EXPECT_EQ(format_->bits(), traits_->bits);
  EXPECT_EQ(format_->DecodeTable().size(), size_t{1} << traits_->bits);
  EXPECT_EQ(format_->MaxFinite(), traits_->largest);
  EXPECT_EQ(format_->MinPositive(), traits_->smallest);
  EXPECT_EQ(format_->OverflowThreshold(), traits_->overflow);
  EXPECT_EQ(format_->DefaultTarget(), traits_->target);
}

TEST_P(FormatContract, CodesAreUnique) {
  std::set<uint32_t> patterns;
  size_t numbers = 0;
  for (const float value : format_->DecodeTable()) {
    if (std::isnan(value)) continue;
    ++numbers;
    patterns.insert(std::bit_cast<uint32_t>(value));
  }
  EXPECT_EQ(patterns.size(), numbers);
  const size_t nans = format_->DecodeTable().size() - numbers;
  EXPECT_EQ(nans > 0, traits_->has_nan);
  EXPECT_EQ(patterns.count(0x80000000), traits_->negative_zero ? 1U : 0U);
  EXPECT_EQ(patterns.count(0x7F800000), traits_->has_infinity ? 1U : 0U);
}

// Every value fits bf16, of which decoding may make use.
TEST_P(FormatContract, ValuesFitBfloat16) {
  for (const float value : format_->DecodeTable()) {
    if (std::isnan(value)) continue;
    EXPECT_EQ(std::bit_cast<uint32_t>(value) & 0xFFFF, 0U) << value;
  }
}

TEST_P(FormatContract, DecodedCodesEncodeToThemselves) {
  for (size_t code = 0; code < format_->DecodeTable().size(); ++code) {
    const float value = format_->DecodeTable()[code];
    if (traits_->unused != 0 && value == traits_->unused) continue;
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(Rounded(value))) << code;
      continue;
    }
    EXPECT_EQ(format_->EncodeOne(value, Overflow::kInfinity), code) << value;
    if (std::isinf(value)) continue;
    EXPECT_EQ(format_->EncodeOne(value, Overflow::kSaturate), code) << value;
  }
}

TEST_P(FormatContract, SymmetricInSign) {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isnan(x)) continue;
    EXPECT_EQ(Rounded(-x), -Rounded(x)) << x;
  }
}

TEST_P(FormatContract, Monotone) {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> exponent(-26, 18);
  std::vector<float> xs(50000);
  for (float& x : xs) x = std::copysign(std::exp2(exponent(random)), random() % 2 ? 1.0F : -1.0F);
  std::sort(xs.begin(), xs.end());
  float last = -kInf;
  for (const float x : xs) {
    const float y = Rounded(x);
    ASSERT_GE(y, last) << x;
    last = y;
  }
}

// All values, all midpoints and both neighbours of each, far outside, and random numbers.
TEST_P(FormatContract, TakesTheNearestWithItsOwnTieRule) {
  std::vector<float> xs = {0.0F, -0.0F, kInf, -kInf, kNan, 1e-45F, -1e-45F, 1e-38F, 3e38F, -3e38F};
  const std::vector<float> values = Values();
  for (size_t i = 0; i < values.size(); ++i) {
    const float next = i + 1 < values.size() ? values[i + 1] : traits_->overflow;
    for (const float x : {values[i], values[i] + (next - values[i]) / 2, traits_->overflow}) {
      xs.insert(xs.end(), {x, std::nextafter(x, kInf), std::nextafter(x, -kInf)});
    }
  }
  std::mt19937 random(13);
  for (int i = 0; i < 20000; ++i) {
    xs.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    xs.push_back(std::ldexp(1.0F + static_cast<float>(random() % 4096) / 4096,
                            static_cast<int>(random() % 44) - 26));
  }
  const NearestSearch search(*format_, *traits_);
  for (const Overflow overflow : {Overflow::kSaturate, Overflow::kInfinity}) {
    for (const float x : xs) {
      ASSERT_TRUE(Same(Rounded(x, overflow), search.Value(x, overflow)))
          << x << " became " << Rounded(x, overflow) << ", nearest is "
          << search.Value(x, overflow);
    }
  }
}

TEST_P(FormatContract, ZeroKeepsItsSignOnlyWhereThereIsOne) {
  for (const float x : {-0.0F, -1e-40F}) {
    const float y = Rounded(x);
    EXPECT_EQ(y, 0.0F);
    EXPECT_EQ(std::signbit(y), traits_->negative_zero);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FormatContract, testing::ValuesIn(BuiltinFormats().names()),
                         [](const auto& tested) { return tested.param; });

TEST(BuiltinFormats, AnUnknownNameIsAUsageErrorThatSuggests) {
  try {
    BuiltinFormats().Get("hif9");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(error.hint().find("hif8"), std::string::npos) << error.hint();
  }
}

TEST(BuiltinFormats, TraitsNameNoFormatThatIsGone) {
  for (const FormatTraits& traits : AllTraits()) {
    EXPECT_NE(BuiltinFormats().Find(traits.name), nullptr) << traits.name;
  }
  EXPECT_EQ(AllTraits().size(), BuiltinFormats().names().size());
}

// Those that are only read: four bits.
TEST(StoredFormats, TakeTheNearest) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> number(-12, 12);
  const NumberFormat& fp4 = StoredFormats().Get("fp4_e2m1");
  const NumberFormat& int4 = StoredFormats().Get("int4");
  for (int i = 0; i < 2000; ++i) {
    const float x = i < 97 ? static_cast<float>(i - 48) / 4 : number(random);
    EXPECT_EQ(fp4.EncodeOne(x, Overflow::kSaturate),
              BuiltinFormats().Get("mxfp4").EncodeOne(x, Overflow::kSaturate));
    const auto nearest = static_cast<int>(std::nearbyint(std::clamp(x, -8.0F, 7.0F)));
    EXPECT_EQ(int4.EncodeOne(x, Overflow::kSaturate), nearest & 15) << x;
    EXPECT_EQ(int4.DecodeTable()[nearest & 15], static_cast<float>(nearest));
    float rounded = 0;
    int4.QuantizeDequantize(std::span(&x, 1), ScaleOperand::One(1), std::span(&rounded, 1));
    EXPECT_EQ(rounded, static_cast<float>(nearest));
  }
}

class Fp8Golden : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Fp8Golden, EveryBfloat16Pattern) {
  const auto [name, file] = GetParam();
  const std::vector<uint8_t> golden = ReadGolden(file);
  const NumberFormat& format = BuiltinFormats().Get(name);
  for (uint32_t i = 0; i < golden.size(); ++i) {
    const float x = std::bit_cast<float>(i << 16);
    ASSERT_EQ(format.EncodeOne(x, Overflow::kSaturate), golden[i]) << std::hex << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, Fp8Golden,
                         testing::Values(std::pair{"fp8_e4m3", "bf16_to_fp8_e4m3fn_saturate.bin"},
                                         std::pair{"fp8_e5m2", "bf16_to_fp8_e5m2_saturate.bin"}),
                         [](const auto& tested) { return tested.param.first; });

}  // namespace
}  // namespace hif8
