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
  const float a = std::min(magnitude, most);
  const int e = a > 0 ? ExponentOf(a) : 0;
  int bits = fraction_bits;
  for (const int edge : edges) bits -= std::abs(e) > edge ? 1 : 0;
  const float step = std::max(std::ldexp(1.0F, e - bits), least_step);
  return (ties_to_even ? std::nearbyint(a / step) : std::round(a / step)) * step;
}

namespace {

bool RoundsAs(const BandedGrid& grid, const RoundingTable& table) {
  const std::vector<float>& values = table.values;
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    const float threshold = table.thresholds[i];
    if (!std::isfinite(threshold)) return false;
    if (grid.Round(threshold) != values[i + 1]) return false;
    if (grid.Round(std::nextafter(threshold, 0.0F)) != values[i]) return false;
  }
  return grid.Round(kMost) == values.back();
}

}  // namespace

std::optional<BandedGrid> FindBandedGrid(const RoundingTable& table) {
  const std::vector<float>& values = table.values;
  if (values.size() < 3) return std::nullopt;
  BandedGrid grid;
  grid.most = values.back();
  grid.least_step = values[1];
  if (std::ldexp(1.0F, ExponentOf(grid.least_step)) != grid.least_step) return std::nullopt;
  // Bits of the fraction at an exponent: the logarithm of how many values it has.
  const auto bits_at = [&](int e) {
    const auto count = std::count_if(values.begin() + 1, values.end(),
                                     [&](float value) { return ExponentOf(value) == e; });
    return static_cast<int>(std::bit_width(static_cast<uint64_t>(count))) - 1;
  };
  for (int e = ExponentOf(values[1]); e <= ExponentOf(values.back()); ++e) {
    grid.fraction_bits = std::max(grid.fraction_bits, bits_at(e));
  }
  // An edge wherever a bit is lost below exponent 0, until the step is the least.
  int bits = grid.fraction_bits;
  for (int e = 0; e >= ExponentOf(grid.least_step); --e) {
    const int here = bits_at(e);
    if (e - here <= ExponentOf(grid.least_step)) break;
    for (; bits > here && bits > 0; --bits) grid.edges.push_back(-e - 1);
  }
  if (std::any_of(grid.edges.begin(), grid.edges.end(), [](int edge) { return edge < 1; })) {
    return std::nullopt;
  }
  for (const bool to_even : {false, true}) {
    grid.ties_to_even = to_even;
    if (RoundsAs(grid, table)) return grid;
  }
  return std::nullopt;
}

}  // namespace hif8
