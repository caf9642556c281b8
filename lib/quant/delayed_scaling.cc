#include "lib/quant/delayed_scaling.h"

#include <algorithm>
#include <cmath>

namespace hif8 {
double DelayedScaling::Step(float amax) {
  const bool measured = step_ % params_.interval == 0;
  ++step_;
  if (std::isnan(amax)) {
    const double used = estimate_.value_or(amax);
    history_.clear();
    estimate_.reset();
    return used;
  }
  if (params_.rule == DelayedRule::kCurrent) {
    Push(amax);
    return amax;
  }
  const double used = estimate_.value_or(amax);
  if (measured) Push(amax);
  return used;
}

void DelayedScaling::Push(float amax) {
  history_.push_back(amax);
  const int64_t window = params_.rule == DelayedRule::kMax ? params_.history : 1;
  while (static_cast<int64_t>(history_.size()) > window) history_.pop_front();
  if (params_.rule == DelayedRule::kExpSmooth && estimate_) {
    estimate_ = params_.alpha * amax + (1 - params_.alpha) * *estimate_;
  } else {
    estimate_ = *std::max_element(history_.begin(), history_.end());
  }
}

std::optional<double> DelayedScaling::Estimate() const { return estimate_; }

}  // namespace hif8
