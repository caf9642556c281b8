#include "lib/numeric/zero_points.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace hif8 {
namespace {

// Every element's scale and zero point.
struct Spread {
  explicit Spread(const ShiftedScales& how) : scales(how.layout.size()), zeros(how.layout.size()) {
    SpreadTiles(how.layout, how.scales, scales);
    SpreadTiles(how.layout, how.zeros, zeros);
  }
  std::vector<float> scales, zeros;
};

}  // namespace

void DecodeShifted(const NumberFormat& format, std::span<const uint8_t> codes,
                   const ShiftedScales& how, std::span<float> y) {
  const std::span<const float> table = format.DecodeTable();
  for (size_t i = 0; i < y.size(); ++i) y[i] = table[codes[i]];
  DecodeShifted(how, y);
}

void DecodeShifted(const ShiftedScales& how, std::span<float> values) {
  const Spread spread(how);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = (values[i] - spread.zeros[i]) * spread.scales[i];
  }
}

void EncodeShifted(std::span<const float> x, const ShiftedScales& how, CodeRange range,
                   std::span<float> codes) {
  const Spread spread(how);
  for (size_t i = 0; i < codes.size(); ++i) {
    const float code = std::nearbyint(x[i] / spread.scales[i]) + spread.zeros[i];
    codes[i] = std::isnan(code) ? 0 : std::clamp(code, range.least, range.most);
  }
}

void RoundShifted(const NumberFormat& format, std::span<const float> x, const ShiftedScales& how,
                  std::span<float> y) {
  const auto [least, most] = std::ranges::minmax(format.DecodeTable());
  EncodeShifted(x, how, {least, most}, y);
  DecodeShifted(how, y);
}

}  // namespace hif8
