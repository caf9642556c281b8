#include "calibrators/amax_rule.h"

#include <bit>

#include "lib/numeric/vector_kernels.h"

namespace hif8 {

float Amax(std::span<const float> values) {
  return std::bit_cast<float>(LargestMagnitude(values.data(), values.size()));
}

ScaleChoice AmaxRule::Solve(std::span<const float> values, const NumberFormat& format,
                            const ScaleParams& params) const {
  return SolveAmax(Amax(values), format, params);
}

ScaleChoice AmaxRule::Solve(const TensorStats& stats, const NumberFormat& format,
                            const ScaleParams& params) const {
  return SolveAmax(stats.amax(), format, params);
}

}  // namespace hif8
