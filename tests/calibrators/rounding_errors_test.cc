// Errors from rounding all values in fp32, against a search of the decode table in double.
#include "calibrators/rounding_errors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "formats/builtin.h"
#include "tests/calibrators/plain_format.h"

namespace hif8 {
namespace {

constexpr int kOctaves = 7;

TEST(RoundingErrors, AreThoseOfASearchOfTheTable) {
  const PlainFormat steps = Steps();
  const PlainFormat floating = Floating();
  std::vector<const NumberFormat*> formats = {&steps, &floating};
  for (const std::string& name : BuiltinFormats().names()) {
    formats.push_back(&BuiltinFormats().Get(name));
  }
  for (const NumberFormat* format : formats) {
    for (const size_t n : {1, 15, 64, 1000, 2048}) {
      std::vector<float> x = Draw(n % 2 == 0 ? Shape1D::kOutliers : Shape1D::kHalfZero, n, 4);
      x[0] = 0.125F;
      if (n > 20) x[7] = 1e-12F;
      // Magnitudes count, also where a table has one negative value more (int8).
      for (float& v : x) v = std::abs(v);
      const float amax = *std::max_element(x.begin(), x.end());
      const double energy = amax * amax * static_cast<double>(n);
      const float target = format->DefaultTarget();
      const auto tables = RoundingTables::Make(format->DecodeTable(), target, kOctaves);
      ASSERT_TRUE(tables) << format->name();
      const float base = amax / target;
      const RoundingErrors rounded(*tables, x, base);
      for (const float fraction : {1.0F, 1.3F, 1.9F}) {
        std::vector<double> errors(10);
        rounded.SquaredErrors(base * fraction, -5, errors);
        for (int j = -5; j < 5; ++j) {
          SCOPED_TRACE(std::string(format->name()) + " n " + std::to_string(n) + " octave " +
                       std::to_string(j) + " fraction " + std::to_string(fraction));
          const double plain = PlainError(x, *format, std::ldexp(base * fraction, j));
          EXPECT_NEAR(errors[static_cast<size_t>(j + 5)], plain,
                      1e-5 * plain + 0x1p-22 * std::sqrt(plain * energy) + 1e-13 * energy);
        }
      }
    }
  }
}

TEST(RoundingErrors, NotOfFormatsWithoutStepsOfTheirOwn) {
  // Uneven between 1 and 2; a step that is no power of two; values that are no multiples of theirs.
  for (const std::vector<float>& values :
       {std::vector<float>{1, 1.25F, 2}, {1.5F, 3, 4.5F}, {1, 2, 3.5F, 4}}) {
    const PlainFormat format("uneven", values, 2);
    EXPECT_FALSE(RoundingTables::Make(format.DecodeTable(), 2, kOctaves));
  }
  EXPECT_FALSE(RoundingTables::Make({}, 2, kOctaves));
}

}  // namespace
}  // namespace hif8
