// Weights: scales from exact values, codes, and the way back.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/model/model.h"
#include "lib/numeric/error_metrics.h"
#include "lib/numeric/exponent_histogram.h"
#include "lib/numeric/number_format.h"
#include "lib/quant/calibrator.h"

namespace hif8 {

// Scales of a weight, one per scale index of the layout, and what the report says about them.
struct WeightScales {
  std::vector<float> scales;
  float global_scale = 1;  // as in EncodedWeight
  float amax = 0;          // over the whole tensor
  std::string note;        // the first fallback that a channel took, or empty
};

// Throws kModel naming `name` and the element index when a value is not finite.
// Scales that follow from the largest magnitude are found as the format says, whatever the rule.
WeightScales SolveWeight(const std::string& name, const FloatSource& weight,
                         const TileLayout& layout, const Calibrator& rule,
                         const NumberFormat& format, const ScaleParams& params);

// codes[i] = format.encode(weight[i] / its scale), in the weight's own element order.
EncodedWeight EncodeWeight(const FloatSource& weight, const TileLayout& layout,
                           std::vector<float> scales, const NumberFormat& format,
                           float global_scale = 1);

// The decoded values, in the weight's own element order; `values` holds layout.size() elements.
void DecodeWeight(const EncodedWeight& encoded, const NumberFormat& format,
                  std::span<float> values);

// Error of the encoded weight against the original, with saturation counted. `exponents`: where the
// original's exponents are added, before and after scaling; may be null.
ErrorMetrics MeasureWeight(const FloatSource& original, const TileLayout& layout,
                           std::span<const float> scales, std::span<const uint8_t> codes,
                           const NumberFormat& format, ScaledExponents* exponents = nullptr);
// `Encoded`: EncodedWeight or WrittenWeight.
template <typename Encoded>
ErrorMetrics MeasureWeight(const FloatSource& original, const Encoded& encoded,
                           const NumberFormat& format, ScaledExponents* exponents = nullptr) {
  return MeasureWeight(original, encoded.layout, encoded.scales, encoded.codes, format, exponents);
}

}  // namespace hif8
