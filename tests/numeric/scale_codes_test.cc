#include "lib/numeric/scale_codes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "formats/builtin.h"

namespace hif8 {
namespace {

const NumberFormat& Nvfp4() { return BuiltinFormats().Get("nvfp4"); }

// By the definition: E4M3 rounds to 4 significant bits, ties to even, quantum 2^-9.
double RoundE4M3(double x) {
  const int exponent = std::max(std::ilogb(x), -6);
  return std::min(std::ldexp(std::nearbyint(std::ldexp(x, 3 - exponent)), exponent - 3), 448.0);
}

TEST(ScaleCodes, TheTileOfTheLargestMagnitudeHasTheLargestScale) {
  for (const float amax : {0.37F, 1.0F, 2688.0F, 3e30F}) {
    const float global = GlobalScale(Nvfp4(), amax, 6);
    EXPECT_EQ(global, 2688.0F / amax);
    const uint8_t code = ScaleCodeFromAmax(Nvfp4(), amax, 6, global);
    EXPECT_EQ(Nvfp4().storage().scale_format->DecodeTable()[code], 448.0F);
    EXPECT_EQ(ScaleValue(Nvfp4(), code, global), 448.0F / global);
  }
}

TEST(ScaleCodes, ScalesAreNumbersOfTheirFormatAndNeverZero) {
  const float global = GlobalScale(Nvfp4(), 5, 6);
  for (int i = 0; i <= 4000; ++i) {
    const float amax = std::exp2(static_cast<float>(i) / -100) * 5;
    const uint8_t code = ScaleCodeFromAmax(Nvfp4(), amax, 6, global);
    const double wanted = std::max(RoundE4M3(double{amax / 6 * global}), 0x1p-9);
    const float scale = ScaleValue(Nvfp4(), code, global);
    EXPECT_EQ(scale, static_cast<float>(wanted) / global) << amax;
    EXPECT_TRUE(std::isnormal(scale)) << amax;
    EXPECT_EQ(ScaleCode(Nvfp4(), scale, global), code) << amax;
  }
  EXPECT_EQ(ScaleValue(Nvfp4(), ScaleCodeFromAmax(Nvfp4(), 0, 6, global), global),
            0x1p-9F / global);
}

TEST(ScaleCodes, ScalesOfTheSmallestTensorsAreNormalNumbers) {
  EXPECT_EQ(GlobalScale(Nvfp4(), 0, 6), 1.0F);
  float amax = 1e-25F;
  while (amax > 0) {
    const float global = GlobalScale(Nvfp4(), amax, 6);
    EXPECT_TRUE(std::isnormal(global)) << amax;
    for (const float part : {0.0F, amax / 1000, amax}) {
      const uint8_t code = ScaleCodeFromAmax(Nvfp4(), part, 6, global);
      EXPECT_TRUE(std::isnormal(ScaleValue(Nvfp4(), code, global))) << amax;
    }
    amax /= 7;
  }
}

TEST(ScaleCodes, OtherFormatsHaveNoGlobalScale) {
  for (const std::string& name : BuiltinFormats().names()) {
    const NumberFormat& format = BuiltinFormats().Get(name);
    if (format.storage().scale_format != nullptr) continue;
    EXPECT_EQ(GlobalScale(format, 9, 3), 1.0F) << name;
  }
  const NumberFormat& mxfp8 = BuiltinFormats().Get("mxfp8");
  const uint8_t code = ScaleCodeFromAmax(mxfp8, 448, 448, 1);
  EXPECT_EQ(ScaleValue(mxfp8, code, 1), 1.0F);
  EXPECT_EQ(ScaleCode(mxfp8, 0x1p-9F, 1), 118);
}

}  // namespace
}  // namespace hif8
