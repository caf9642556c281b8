// HiF8 against its golden tables, and what only HiF8 promises.
#include "formats/hif8.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "formats/builtin.h"
#include "tests/formats/golden.h"
#include "tests/formats/targets.h"
#include "tests/paths.h"

namespace hif8 {
namespace {

const NumberFormat& Hif8() { return BuiltinFormats().Get("hif8"); }

TEST(Hif8, ValuesMatchTheGoldenTable) {
  std::ifstream file(std::string(HIF8_TEST_DATA_DIR) + "/golden/hif8_values.csv");
  std::string line;
  std::getline(file, line);
  int rows = 0;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string code_text, value_text;
    std::getline(fields, code_text, ',');
    std::getline(fields, value_text, ',');
    const auto code = static_cast<uint8_t>(std::stoi(code_text, nullptr, 16));
    const float expected = std::strtof(value_text.c_str(), nullptr);
    const float value = Hif8().DecodeTable()[code];
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << line;
    } else {
      EXPECT_EQ(value, expected) << line;
    }
    ++rows;
  }
  EXPECT_EQ(rows, 256);
}

struct GoldenCase {
  const char* file;
  DType dtype;
  Overflow overflow;
};

class Hif8Golden : public testing::TestWithParam<GoldenCase> {};

TEST_P(Hif8Golden, EveryPatternOnEveryTarget) {
  const std::vector<uint8_t> golden = ReadGolden(GetParam().file);
  std::vector<uint16_t> patterns(65536);
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
  const auto* bytes = reinterpret_cast<const std::byte*>(patterns.data());
  std::vector<float> floats(patterns.size());
  ConvertToFloat(GetParam().dtype, bytes, patterns.size(), floats.data());
  for (size_t i = 0; i < patterns.size(); ++i) {
    ASSERT_EQ(EncodeHif8(floats[i], GetParam().overflow), golden[i]) << std::hex << i;
  }
  const float one = 1;
  ForEachTarget([&] {
    std::vector<uint8_t> codes(patterns.size());
    Hif8().Encode(GetParam().dtype, bytes, ScaleOperand::One(one), codes, GetParam().overflow);
    for (size_t i = 0; i < codes.size(); ++i) ASSERT_EQ(codes[i], golden[i]) << std::hex << i;
    Hif8().Encode(DType::kF32, reinterpret_cast<const std::byte*>(floats.data()),
                  ScaleOperand::One(one), codes, GetParam().overflow);
    for (size_t i = 0; i < codes.size(); ++i) ASSERT_EQ(codes[i], golden[i]) << std::hex << i;
  });
}

INSTANTIATE_TEST_SUITE_P(
    Tables, Hif8Golden,
    testing::Values(GoldenCase{"bf16_to_hif8_saturate.bin", DType::kBF16, Overflow::kSaturate},
                    GoldenCase{"bf16_to_hif8_inf.bin", DType::kBF16, Overflow::kInfinity},
                    GoldenCase{"fp16_to_hif8_saturate.bin", DType::kF16, Overflow::kSaturate},
                    GoldenCase{"fp16_to_hif8_inf.bin", DType::kF16, Overflow::kInfinity}),
    [](const auto& tested) {
      const std::string file = tested.param.file;
      return file.substr(0, file.find('.'));
    });

TEST(Hif8, LimitsFollowFromTheTable) {
  EXPECT_EQ(Hif8().MaxFinite(), 32768.0F);
  EXPECT_EQ(Hif8().MinPositive(), std::ldexp(1.0F, -22));
  EXPECT_EQ(Hif8().OverflowThreshold(), 40960.0F);
  EXPECT_EQ(Hif8().DefaultTarget(), 16.0F);
}

// Values a hair beside every rounding boundary: rounding to bf16 first would get these wrong.
TEST(Hif8, RoundsOnce) {
  EXPECT_EQ(EncodeHif8(std::nextafter(1.0625F, 0.0F), Overflow::kSaturate), 0x08);
  EXPECT_EQ(EncodeHif8(1.0625F, Overflow::kSaturate), 0x09);
  EXPECT_EQ(EncodeHif8(std::nextafter(40960.0F, 0.0F), Overflow::kInfinity), 0x6E);
  EXPECT_EQ(EncodeHif8(40960.0F, Overflow::kInfinity), 0x6F);
  EXPECT_EQ(EncodeHif8(std::ldexp(1.0F, -23), Overflow::kSaturate), 0x01);
  EXPECT_EQ(EncodeHif8(std::nextafter(std::ldexp(1.0F, -23), 0.0F), Overflow::kSaturate), 0x00);
  EXPECT_EQ(EncodeHif8(-std::ldexp(1.0F, -24), Overflow::kSaturate), 0x00);
}

}  // namespace
}  // namespace hif8
