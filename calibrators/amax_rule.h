// Base of the rules to which nothing but the largest magnitude matters.
#pragma once

#include "lib/quant/calibrator.h"

namespace hif8 {

// Solves everything but SolveAmax, which is left to each rule.
class AmaxRule : public Calibrator, public AmaxSolver {
 public:
  const AmaxSolver* amax_solver() const final { return this; }
  ScaleChoice Solve(std::span<const float> values, const NumberFormat& format,
                    const ScaleParams& params) const final;
  ScaleChoice Solve(const TensorStats& stats, const NumberFormat& format,
                    const ScaleParams& params) const final;
};

// Returns the largest magnitude of finite values.
float Amax(std::span<const float> values);

}  // namespace hif8
