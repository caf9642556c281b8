#include "lib/numeric/zero_points.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace hif8 {
namespace {

constexpr float kLeastCode = -128, kMostCode = 127;

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

void RoundShifted(std::span<const float> x, const ShiftedScales& how, std::span<float> y) {
  const Spread spread(how);
  for (size_t i = 0; i < y.size(); ++i) {
    const float code = std::nearbyint(x[i] / spread.scales[i]) + spread.zeros[i];
    y[i] = (std::clamp(code, kLeastCode, kMostCode) - spread.zeros[i]) * spread.scales[i];
  }
}

}  // namespace hif8
