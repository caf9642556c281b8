// Delayed scaling: the amax of a training step estimated from the steps before it.
//
// Amax is measured at the steps t with t mod interval = 0 and pushed into a history then; the
// estimate used at step t comes from what was pushed before t. While nothing has been pushed (the
// first step, and after a restart until the next measurement) a step uses its own amax. A step with
// a non-finite value updates nothing and empties the history.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "lib/quant/calibrator.h"

namespace hif8 {

class DelayedScaling {
 public:
  explicit DelayedScaling(const DelayedParams& params) : params_(params) {}

  // Adds one step whose values reach `amax`; NaN: it holds non-finite values. Returns the
  // estimate that the step uses; NaN where it has none (such a step before any measurement).
  double Step(float amax);

  // Estimates from the steps so far what the next step uses (rule `current`: the last step's amax).
  // Nothing when the history is empty.
  std::optional<double> Estimate() const;

  // Returns the rest of the state: the measurements in the window, oldest first (only the newest
  // for rules that need no more), and the number of steps so far.
  const std::deque<float>& history() const { return history_; }
  int64_t step() const { return step_; }

 private:
  void Push(float amax);

  DelayedParams params_;
  std::deque<float> history_;
  std::optional<double> estimate_;
  int64_t step_ = 0;
};

}  // namespace hif8
