#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "lib/model/onnx/functions.h"

namespace hif8 {
namespace {

constexpr float kMost = std::numeric_limits<float>::max();

// The smallest positive fp32 magnitude whose rounded value is at least `value`; kMost + 1 ulp, that
// is infinity, when there is none.
float Threshold(const NumberFormat& format, float value) {
  const std::span<const float> table = format.DecodeTable();
  uint32_t low = 0;  // rounds below
  uint32_t high = std::bit_cast<uint32_t>(std::numeric_limits<float>::infinity());
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    const uint8_t code = format.EncodeOne(std::bit_cast<float>(middle), Overflow::kSaturate);
    (table[code] >= value ? high : low) = middle;
  }
  return std::bit_cast<float>(high);
}

int ExponentOf(float value) { return std::ilogb(value); }

}  // namespace

RoundingTable MakeRoundingTable(const NumberFormat& format) {
  RoundingTable table;
  table.values.push_back(0);
  for (const float value : format.DecodeTable()) {
    if (std::isfinite(value) && value > 0) table.values.push_back(value);
  }
  std::sort(table.values.begin(), table.values.end());
  table.values.erase(std::unique(table.values.begin(), table.values.end()), table.values.end());
  for (size_t i = 1; i < table.values.size(); ++i) {
    table.thresholds.push_back(Threshold(format, table.values[i]));
  }
  return table;
}

float BandedGrid::Round(float magnitude) const {
  if (magnitude < zero_below) return 0;
  const float a = std::max(std::min(magnitude, clamp), zero_below);
  const int e = std::max(ExponentOf(a), least_exponent);
  int bits = fraction_bits;
  for (const int edge : edges) bits -= std::abs(e) > edge ? 1 : 0;
  const float step = std::ldexp(1.0F, e - bits);
  return std::min(std::floor(a / step + 0.5F) * step, most);
}

std::optional<BandedGrid> FindBandedGrid(const NumberFormat& format, const RoundingTable& table) {
  const std::vector<float>& values = table.values;
  if (values.size() < 3) return std::nullopt;
  BandedGrid grid;
  grid.zero_below = values[1] / 2;
  grid.clamp = format.OverflowThreshold();
  grid.most = values.back();
  grid.least_exponent = ExponentOf(values[1]);
  // Fraction bits at exponent 0, then an edge wherever the number of values halves.
  const auto count = [&](int e) {
    return std::count_if(values.begin() + 1, values.end(),
                         [&](float value) { return ExponentOf(value) == e; });
  };
  grid.fraction_bits = std::bit_width(static_cast<uint64_t>(count(0))) - 1;
  int bits = grid.fraction_bits;
  for (int e = 0; e <= -grid.least_exponent; ++e) {
    const int here = std::bit_width(static_cast<uint64_t>(count(-e))) - 1;
    for (; bits > here && bits > 0; --bits) grid.edges.push_back(e - 1);
  }
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    const float threshold = table.thresholds[i];
    if (!std::isfinite(threshold)) return std::nullopt;
    if (grid.Round(threshold) != values[i + 1]) return std::nullopt;
    if (grid.Round(std::nextafter(threshold, 0.0F)) != values[i]) return std::nullopt;
  }
  if (grid.Round(kMost) != values.back()) return std::nullopt;
  return grid;
}

}  // namespace hif8
