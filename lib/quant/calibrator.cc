#include "lib/quant/calibrator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "lib/core/error.h"
#include "lib/numeric/tile_scaling.h"

namespace hif8 {
namespace {

constexpr float kMinNormal = std::numeric_limits<float>::min();
constexpr float kMaxFloat = std::numeric_limits<float>::max();
constexpr float kMaxPowerOfTwo = 0x1p127F;
constexpr uint32_t kBf16Step = 1U << 16;
constexpr uint32_t kMaxBf16 = 0x7F7F0000U;

float RoundToBf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & ~(kBf16Step - 1);
  return std::bit_cast<float>(std::min(rounded, kMaxBf16));
}

// The next larger number of the scale's kind.
float Next(float scale, const ScaleParams& params) {
  if (params.power_of_two) return scale * 2;
  const uint32_t step = params.scale_dtype == ScaleDType::kBF16 ? kBf16Step : 1;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scale) + step);
}

}  // namespace

ScaleChoice Calibrator::SolvePieces(const ValuePieces& values, const NumberFormat& format,
                                    const ScaleParams& params) const {
  std::vector<float> all;
  values([&](std::span<const float> piece) { all.insert(all.end(), piece.begin(), piece.end()); });
  return Solve(all, format, params);
}

const Calibrator& RuleWith(const CalibratorRegistry& rules, bool RuleTraits::*trait, bool value) {
  for (const std::string& name : rules.names()) {
    if (rules.Get(name).traits().*trait == value) return rules.Get(name);
  }
  throw Error(ErrorCode::kBug, "no scale rule has a trait that the recipe relies on");
}

float RoundScale(float scale, float amax, const ScaleParams& params) {
  // amax / FLT_MAX is within rounding of the least scale that leaves the quotient finite. Below 4
  // it is subnormal, which is slow to compute and clamped anyway.
  if (amax >= 4) scale = std::max(scale, amax / kMaxFloat);
  scale = std::clamp(scale, kMinNormal, kMaxFloat);
  if (params.power_of_two) {
    scale = std::min(CeilPowerOfTwo(scale), kMaxPowerOfTwo);
  } else if (params.scale_dtype == ScaleDType::kBF16) {
    scale = RoundToBf16(scale);
  }
  while (std::isinf(amax / scale)) scale = Next(scale, params);
  return scale;
}

float ScaleFromReference(float reference, float amax, float target, const ScaleParams& params) {
  if (!(reference > 0)) return 1;
  return RoundScale(reference / target, amax, params);
}

float ResolveTarget(const NumberFormat& format, const ScaleParams& params) {
  return params.target > 0 ? static_cast<float>(params.target) : format.DefaultTarget();
}

ScaleChoice ChooseScale(float reference, float amax, const NumberFormat& format,
                        const ScaleParams& params) {
  ScaleChoice choice;
  choice.target = ResolveTarget(format, params);
  choice.reference = reference;
  choice.amax = amax;
  choice.scale = ScaleFromReference(reference, amax, choice.target, params);
  return choice;
}

}  // namespace hif8
