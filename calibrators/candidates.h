// The candidate scales of rule `mse`, and the search among them by any measure of error.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "lib/quant/calibrator.h"

namespace hif8 {

inline constexpr int kQuarters = 4;  // the second round's steps in one of the first
// Sums that should be equal may differ in their last digits.
inline constexpr double kTie = 1e-9;
// First-round candidates whose errors differ by less than this, relatively, all go to the second,
// at most so many of them.
inline constexpr double kNearTie = 0.01;
inline constexpr int kMaxCenters = 6;

// The candidates of one search. They are numbered in quarters of a step, 0 the scale of `max`.
class Candidates {
 public:
  Candidates(float amax, const NumberFormat& format, const ScaleParams& params)
      : amax_(amax),
        params_(params),
        base_(ChooseScale(amax, amax, format, params).scale),
        target_(ResolveTarget(format, params)),
        steps_(static_cast<int>(params.mse.steps_per_octave)),
        octave_(kQuarters * steps_),
        fractions_(FractionsOf(octave_)),
        most_(static_cast<int>(std::lround(params.mse.octaves * steps_))) {}

  float Scale(int at) const {
    if (at == 0) return base_;
    // An octave apart is a factor of exactly 2.
    const int octaves = at >= 0 ? at / octave_ : -((octave_ - 1 - at) / octave_);
    const int fraction = at - octaves * octave_;
    const auto nearest = static_cast<float>(base_ * fractions_[static_cast<size_t>(fraction)]);
    return RoundScale(std::ldexp(nearest, octaves), amax_, params_);
  }

  // Returns where candidate k of the first round stands in a list of all of them.
  size_t Position(int k) const {
    const int position = k + most_;
    return static_cast<size_t>(position);
  }
  // Returns 0, 1, -1, 2, -2, ... for i = 0, 1, 2, ...: of two that are equally good the one nearest
  // to 0 is met first.
  static int Outward(int i) { return i % 2 == 0 ? -i / 2 : (i + 1) / 2; }
  int most() const { return most_; }
  int octave() const { return octave_; }
  // Returns the number of octaves below the first that candidates reach down to, for every fraction
  // of one.
  int octaves_below() const { return most_ / steps_; }
  float amax() const { return amax_; }
  float target() const { return target_; }

  // Returns the errors of the first round's candidates k = -most ... most by `error`, a function of
  // the scale.
  template <typename F>
  std::vector<double> Errors(const F& error) const {
    std::vector<double> errors;
    for (int k = -most_; k <= most_; ++k) errors.push_back(error(Scale(kQuarters * k)));
    return errors;
  }
  // Returns the same from all octaves of a fraction at once: `errors_of` fills in those of
  // scale * 2^j for consecutive j.
  template <typename F>
  std::vector<double> ErrorsByOctave(const F& errors_of) const {
    std::vector<double> errors(2 * static_cast<size_t>(most_) + 1);
    std::vector<double> octaves;
    const int steps = steps_;
    for (int r = 0; r < steps; ++r) {
      const int first = -((most_ + r) / steps);
      const int last = most_ >= r ? (most_ - r) / steps : -1;
      if (first > last) continue;
      octaves.resize(static_cast<size_t>(last - first) + 1);
      errors_of(Scale(kQuarters * r), first, std::span(octaves));
      for (int j = first; j <= last; ++j) {
        const int octave = j - first;
        errors[Position(r + j * steps)] = octaves[static_cast<size_t>(octave)];
      }
    }
    return errors;
  }

  // Returns the best candidate of both rounds, from the errors of the first and by `error`, a
  // function of the candidate, in the second. The second round goes around the best and, since a
  // near tie of the first says little about it, around others that are about as good.
  template <typename F>
  int Search(const std::vector<double>& errors, const F& error) const {
    const auto error_of = [&](int k) { return errors[Position(k)]; };
    int best = 0;
    double least = error_of(0);
    const auto take = [&](int at, double found) {
      if (found < least - kTie * std::abs(least)) {
        least = found;
        best = at;
      }
    };
    for (int i = 0; i <= 2 * most_; ++i) take(kQuarters * Outward(i), error_of(Outward(i)));
    const double limit = least + kNearTie * std::abs(least);
    int centers = 0;
    std::vector<int> tried;  // two centers side by side have neighbours in common
    for (int i = 0; i <= 2 * most_; ++i) {
      const int k = Outward(i);
      if (error_of(k) > limit || ++centers > kMaxCenters) continue;
      const int outward = k < 0 ? -1 : 1;
      for (int j = -kQuarters + 1; j < kQuarters; ++j) {
        const int at = kQuarters * k + outward * j;
        if (j == 0 || std::find(tried.begin(), tried.end(), at) != tried.end()) continue;
        tried.push_back(at);
        take(at, error(at));
      }
    }
    return best;
  }

  ScaleChoice Choice(int at) const {
    ScaleChoice choice;
    choice.scale = Scale(at);
    choice.amax = amax_;
    choice.target = target_;
    choice.reference = at == 0 ? amax_ : choice.scale * target_;
    return choice;
  }

 private:
  // Returns 2^(i / octave) for i from 0 to octave - 1: made again only for another number of steps.
  static std::span<const double> FractionsOf(int octave) {
    thread_local std::vector<double> fractions;
    if (fractions.size() != static_cast<size_t>(octave)) {
      fractions.clear();
      for (int i = 0; i < octave; ++i) {
        fractions.push_back(std::exp2(i / static_cast<double>(octave)));
      }
    }
    return fractions;
  }

  float amax_;
  const ScaleParams& params_;
  float base_;
  float target_;
  int steps_;   // candidates in an octave
  int octave_;  // quarter steps in an octave
  std::span<const double> fractions_;
  int most_;  // k of the first round's last candidate
};

}  // namespace hif8
