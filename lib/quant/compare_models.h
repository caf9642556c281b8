// An original and a quantized model by their files alone: what every tensor became, and what has no
// partner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/core/log.h"
#include "lib/model/stored_model.h"
#include "lib/numeric/error_metrics.h"
#include "lib/numeric/exponent_histogram.h"

namespace hif8 {

// One tensor in both models.
struct TensorPair {
  size_t original = 0, quantized = 0;  // positions in tensors()
  std::string problem;                 // why they cannot be compared, or empty
  bool equal = false;                  // the same values; the rest is not filled then
  ErrorMetrics error;
  // Count scales, where the tensor is stored as codes.
  size_t scales = 0, bad_scales = 0;  // bad: not a positive, normal, finite fp32
  // Measures what rounding the original to nearest with the stored scales gives. Nothing when a
  // scale is bad.
  std::optional<ErrorMetrics> nearest;
  uint64_t not_nearest = 0;                  // values that are not what that gives
  ScaledExponents exponents;                 // of the original, and divided by the scales
  double least_target = 0, most_target = 0;  // amax / scale over the tiles with amax > 0; 0: none
};

struct ModelPair {
  std::vector<TensorPair> pairs;                      // in the original's order
  std::vector<size_t> only_original, only_quantized;  // positions in tensors()
};

// Matches by name. Memory does not grow with the models. Throws kModel when they are of different
// kinds or have not one name in common.
ModelPair CompareModels(const StoredModel& original, const StoredModel& quantized,
                        const FormatRegistry& formats, LogSink& log);

// Says what speaks against a pair: codes and scales that do not belong together, scales that are no
// numbers, values that changed where nothing was quantized. Empty when nothing does.
std::string Suspicion(const TensorPair& pair, const StoredTensor& original,
                      const StoredTensor& quantized);

}  // namespace hif8
