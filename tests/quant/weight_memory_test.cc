// What quantizing a large weight takes beside its codes does not grow with it, whatever the file
// holds.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "lib/core/sanitizer.h"
#include "lib/model/safetensors/checkpoint.h"
#include "lib/quant/weight_quantizer.h"
#include "tests/model/safetensors/checkpoint_files.h"
#include "tests/quant/large_checkpoint.h"

namespace hif8 {
namespace {

constexpr int64_t kRows = 8192;
constexpr int64_t kColumns = 8192;
constexpr size_t kSize = size_t{kRows} * kColumns;
constexpr int64_t kBlock = 128;
constexpr uint64_t kBeside = uint64_t{32} << 20;

// E4M3 codes of any sign and exponent, none of them NaN.
std::string RandomCodes() {
  std::string codes(kSize, '\0');
  std::mt19937_64 random(7);
  for (size_t i = 0; i < kSize; i += 8) {
    const uint64_t bits = random() & 0xFEFEFEFEFEFEFEFEULL;
    std::memcpy(codes.data() + i, &bits, 8);
  }
  return codes;
}

float E4M3(uint8_t code) {
  const int exponent = code >> 3 & 15;
  const int fraction = code & 7;
  const double magnitude =
      exponent == 0 ? fraction / 512.0 : std::ldexp(1 + fraction / 8.0, exponent - 7);
  return static_cast<float>(code & 128 ? -magnitude : magnitude);
}

float ScaleOfBlock(int64_t block) { return static_cast<float>(1 + block % 13) * 0.001F; }

class WeightMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitizedBuild) GTEST_SKIP() << "sanitizers need memory of their own";
  }

  // The largest memory of all three steps beyond what there was, and all that they give.
  struct Quantized {
    uint64_t memory;
    EncodedWeight encoded;
    ErrorMetrics error;
  };
  static Quantized Quantize(const Checkpoint& checkpoint, const TileLayout& layout) {
    const NumberFormat& format = BuiltinFormats().Get("hif8");
    const uint64_t before = test::OwnMemory();
    test::MemoryWatch watch;
    const FloatSource weight = checkpoint.OpenWeight(0);
    WeightScales solved =
        SolveWeight("w", weight, layout, BuiltinCalibrators().Get("max"), format, {});
    EncodedWeight encoded = EncodeWeight(weight, layout, std::move(solved.scales), format);
    const ErrorMetrics error = MeasureWeight(weight, encoded, format);
    return {watch.Stop() - before, std::move(encoded), error};
  }

  test::TemporaryFolder folder_;
};

TEST_F(WeightMemory, OfAnFp8WeightIsThatOfItsCodes) {
  std::vector<float> scales(kRows / kBlock * kColumns / kBlock);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = ScaleOfBlock(static_cast<int64_t>(i));
  std::string codes = RandomCodes();
  test::WriteBytes(folder_.path() / "model.safetensors",
                   test::FileOf({{"up_proj.weight", "F8_E4M3", {kRows, kColumns}, codes},
                                 {"up_proj.weight_scale_inv",
                                  "F32",
                                  {kRows / kBlock, kColumns / kBlock},
                                  test::F32Bytes(scales)}}));
  std::array<float, 256> values;
  for (int code = 0; code < 256; ++code) {
    values[static_cast<size_t>(code)] = E4M3(static_cast<uint8_t>(code));
  }
  const auto value = [&](int64_t row, int64_t column) {
    const auto code = static_cast<uint8_t>(codes[static_cast<size_t>(row * kColumns + column)]);
    return values[code] * ScaleOfBlock(row / kBlock * (kColumns / kBlock) + column / kBlock);
  };

  const auto checkpoint = Checkpoint::Open(folder_.path() / "model.safetensors", StoredFormats());
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  const Quantized channels = Quantize(*checkpoint, TileLayout::PerChannel({kRows, kColumns}, 0));
  EXPECT_LT(channels.memory, kSize + kBeside);
  float amax = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    float row_amax = 0;
    for (int64_t c = 0; c < kColumns; ++c) row_amax = std::max(row_amax, std::abs(value(row, c)));
    ASSERT_EQ(channels.encoded.scales[static_cast<size_t>(row)], row_amax / 16) << row;
    amax = std::max(amax, row_amax);
    if (row % 1000 != 0) continue;
    for (int64_t c = 0; c < kColumns; ++c) {
      ASSERT_EQ(channels.encoded.codes[static_cast<size_t>(row * kColumns + c)],
                format.EncodeOne(value(row, c) / (row_amax / 16), Overflow::kSaturate))
          << row << " " << c;
    }
  }
  EXPECT_EQ(channels.error.Amax(), amax);

  const Quantized one = Quantize(*checkpoint, TileLayout::PerTensor({kRows, kColumns}));
  EXPECT_LT(one.memory, kSize + kBeside);
  EXPECT_EQ(one.encoded.scales, std::vector<float>{amax / 16});
}

TEST_F(WeightMemory, OfABf16WeightWithOneScaleIsThatOfItsCodes) {
  test::WriteBytes(
      folder_.path() / "model.safetensors",
      test::FileOf({{"up_proj.weight", "BF16", {kRows, kColumns}, test::RandomBf16(2 * kSize)}}));
  const auto checkpoint = Checkpoint::Open(folder_.path() / "model.safetensors", StoredFormats());
  const Quantized one = Quantize(*checkpoint, TileLayout::PerTensor({kRows, kColumns}));
  EXPECT_LT(one.memory, kSize + kBeside);
}

}  // namespace
}  // namespace hif8
