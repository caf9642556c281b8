#include "lib/quant/delayed_trace.h"

#include <cmath>

namespace hif8 {
namespace {

// Of two that are equal the earlier one, `a`.
const DelayedTrace::Point& Larger(const DelayedTrace::Point& a, const DelayedTrace::Point& b) {
  return b.amax > a.amax || (std::isnan(a.amax) && !std::isnan(b.amax)) ? b : a;
}

}  // namespace

void DelayedTrace::Add(double amax, const std::array<double, kDelayedRules.size()>& estimates) {
  const Point point{steps_, amax, estimates};
  if (steps_ % stride_ != 0) {
    points_.back() = Larger(points_.back(), point);
  } else {
    if (points_.size() == kMostPoints) {
      // The number of points is even, and so every one has a neighbour.
      for (size_t i = 0; i < kMostPoints / 2; ++i) {
        points_[i] = Larger(points_[2 * i], points_[2 * i + 1]);
      }
      points_.resize(kMostPoints / 2);
      stride_ *= 2;
    }
    points_.push_back(point);
  }
  ++steps_;
}

}  // namespace hif8
