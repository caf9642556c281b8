// The amax of a long run of steps and what was estimated for them, in bounded memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/quant/delayed_scaling.h"

namespace hif8 {

inline constexpr std::array<DelayedRule, 4> kDelayedRules = {
    DelayedRule::kMostRecent, DelayedRule::kExpSmooth, DelayedRule::kMax, DelayedRule::kCurrent};

// Keeps every step while there are few of them, then one of `stride` neighbours: that with the
// largest amax, so that no peak is lost.
class DelayedTrace {
 public:
  static constexpr size_t kMostPoints = 128;

  struct Point {
    int64_t step = 0;  // counted from 0
    double amax = 0;   // NaN: values that are not finite, as no other step of the stride has
    std::array<double, kDelayedRules.size()> estimates{};  // NaN: none
  };

  void Add(double amax, const std::array<double, kDelayedRules.size()>& estimates);
  const std::vector<Point>& points() const { return points_; }
  int64_t stride() const { return stride_; }

 private:
  std::vector<Point> points_;
  int64_t stride_ = 1;
  int64_t steps_ = 0;
};

}  // namespace hif8
