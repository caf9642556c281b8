// What the specifications say of each format, written down apart from the code under test, and the
// plainest possible conversion: try every code and take the nearest.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "lib/numeric/number_format.h"

namespace hif8 {

struct FormatTraits {
  std::string_view name;
  int bits;
  bool ties_away;  // else to the even code
  bool negative_zero;
  bool has_nan;
  bool has_infinity;
  bool keeps_infinity;  // also when saturating
  float largest;
  float smallest;
  float overflow;  // from here on a finite value leaves the range
  float target;
  float unused;  // a value that has a code but is never written, else 0
};

inline const std::vector<FormatTraits>& AllTraits() {
  const float after_464 = std::nextafter(464.0F, 500.0F);
  static const std::vector<FormatTraits> traits = {
      {"hif8", 8, true, false, true, true, true, 32768, 0x1p-22F, 40960, 16, 0},
      {"fp8_e4m3", 8, false, true, true, false, false, 448, 0x1p-9F, after_464, 448, 0},
      {"fp8_e5m2", 8, false, true, true, true, false, 57344, 0x1p-16F, 61440, 57344, 0},
      {"fp8_e4m3_block", 8, false, true, true, false, false, 448, 0x1p-9F, after_464, 448, 0},
      {"mxfp8", 8, false, true, true, false, false, 448, 0x1p-9F, after_464, 448, 0},
      {"mxfp4", 4, false, true, false, false, false, 6, 0.5F, 7, 6, 0},
      {"nvfp4", 4, false, true, false, false, false, 6, 0.5F, 7, 6, 0},
      {"int8", 8, false, false, false, false, false, 127, 1, 127.5F, 127, -128},
  };
  return traits;
}

inline const FormatTraits* FindTraits(std::string_view name) {
  for (const FormatTraits& traits : AllTraits()) {
    if (traits.name == name) return &traits;
  }
  return nullptr;
}

// The value (not the code) that x becomes.
class NearestSearch {
 public:
  NearestSearch(const NumberFormat& format, const FormatTraits& traits)
      : table_(format.DecodeTable()), traits_(traits) {}

  float Value(float x, Overflow overflow) const {
    const float infinity = std::numeric_limits<float>::infinity();
    if (std::isnan(x)) return traits_.has_nan ? x : 0;
    const bool to_infinity = traits_.has_infinity && overflow == Overflow::kInfinity;
    if (std::isinf(x) && (traits_.keeps_infinity || to_infinity)) return x;
    if (std::isinf(x)) return std::copysign(traits_.largest, x);
    if (to_infinity && std::fabs(x) >= traits_.overflow) return std::copysign(infinity, x);
    // Distances from far outside would all round to the same double.
    if (std::fabs(x) >= traits_.largest) return std::copysign(traits_.largest, x);
    size_t best = table_.size();
    for (size_t code = 0; code < table_.size(); ++code) {
      if (!std::isfinite(table_[code]) || (traits_.unused != 0 && table_[code] == traits_.unused)) {
        continue;
      }
      if (best == table_.size() || Better(x, code, best)) best = code;
    }
    return table_[best];
  }

 private:
  bool Better(float x, size_t code, size_t best) const {
    const double distance = std::fabs(static_cast<double>(table_[code]) - x);
    const double least = std::fabs(static_cast<double>(table_[best]) - x);
    if (distance != least) return distance < least;
    if (table_[code] == table_[best]) return false;
    return traits_.ties_away ? std::fabs(table_[code]) > std::fabs(table_[best]) : code % 2 == 0;
  }

  std::span<const float> table_;
  const FormatTraits& traits_;
};

}  // namespace hif8
