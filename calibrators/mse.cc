// Rule `mse`: the candidate scale with the least squared error.
//
// Candidates are s_k = s_max 2^(k / steps), k from -octaves * steps to octaves * steps, with s_max
// the scale of rule `max`; then again in a quarter of the steps around the best, and around others
// that are as good to 1 %: a near tie of the first round says little about the second. Ties go to
// the candidate nearest to k = 0.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "calibrators/rules.h"
#include "calibrators/tail_sums.h"
#include "lib/numeric/vector_kernels.h"

namespace hif8 {
namespace {

constexpr int kQuarters = 4;  // the second round's steps in one of the first
// Up to here quantizing once per candidate costs no more than a table of sums, and is exact.
constexpr size_t kSmall = 128;
// Up to so many values per fraction that a threshold can have, the values in bins that thresholds
// cut are looked at one by one; with more of them in a bin, where each lies averages out.
constexpr size_t kExactPerFraction = 128;
// So they are where the sums are more in doubt than this, relative to the error: when a few large
// values make most of it.
constexpr double kDoubtful = 0.08;
// Sums that should be equal may differ in their last digits.
constexpr double kTie = 1e-9;
// What rounding the products of scale and code to fp32 can make of an error, relatively, and more.
constexpr double kRounding = 1e-4;
// First-round candidates whose errors differ by less than this, relatively, all go to the second,
// at most so many of them.
constexpr double kNearTie = 0.01;
constexpr int kMaxCenters = 6;

// The steps of a format, derived again only when another format comes.
const DecisionSteps& StepsOf(const NumberFormat& format) {
  thread_local std::vector<float> table;
  thread_local DecisionSteps steps({});
  const std::span<const float> wanted = format.DecodeTable();
  const bool same = table.size() == wanted.size() &&
                    std::memcmp(table.data(), wanted.data(), wanted.size_bytes()) == 0;
  if (!same) {
    table.assign(wanted.begin(), wanted.end());
    steps = DecisionSteps(wanted);
  }
  return steps;
}

double ExactError(std::span<const float> values, const NumberFormat& format, float scale) {
  constexpr size_t kPiece = 1024;
  std::array<float, kPiece> rounded;
  ErrorSums sums;
  for (size_t begin = 0; begin < values.size(); begin += kPiece) {
    const size_t n = std::min(kPiece, values.size() - begin);
    const float* x = values.data() + begin;
    format.QuantizeDequantize({x, n}, ScaleOperand::One(scale), std::span(rounded).first(n));
    const size_t whole = n - n % kErrorLanes;
    AddErrorSums(x, rounded.data(), whole, &sums);
    for (size_t i = whole; i < n; ++i) {
      const double d = static_cast<double>(x[i]) - static_cast<double>(rounded[i]);
      sums.noise[i % kErrorLanes] += d * d;
    }
  }
  return std::accumulate(sums.noise.begin(), sums.noise.end(), 0.0);
}

// The candidates of one search. They are numbered in quarters of a step, 0 the scale of `max`.
class Candidates {
 public:
  Candidates(float amax, const NumberFormat& format, const ScaleParams& params)
      : amax_(amax),
        params_(params),
        base_(ChooseScale(amax, amax, format, params).scale),
        target_(ResolveTarget(format, params)),
        octave_(kQuarters * params.mse_steps_per_octave),
        most_(static_cast<int>(std::lround(params.mse_octaves * params.mse_steps_per_octave))) {}

  float Scale(int at) const {
    if (at == 0) return base_;
    // An octave apart is a factor of exactly 2.
    const int octaves = at >= 0 ? at / octave_ : -((octave_ - 1 - at) / octave_);
    const double ratio = std::exp2((at - octaves * octave_) / static_cast<double>(octave_));
    const auto nearest = static_cast<float>(base_ * ratio);
    return RoundScale(std::ldexp(nearest, octaves), amax_, params_);
  }

  // Where candidate k of the first round stands in a list of all of them.
  size_t Position(int k) const {
    const int position = k + most_;
    return static_cast<size_t>(position);
  }
  int most() const { return most_; }

  // The errors of the first round's candidates k = -most ... most by `error`, a function of the
  // scale.
  template <typename F>
  std::vector<double> Errors(const F& error) const {
    std::vector<double> errors;
    for (int k = -most_; k <= most_; ++k) errors.push_back(error(Scale(kQuarters * k)));
    return errors;
  }
  // The same from sums, all octaves of a fraction at once.
  std::vector<double> Errors(const TailSums& sums, const DecisionSteps& format) const {
    std::vector<double> errors(2 * static_cast<size_t>(most_) + 1);
    std::vector<double> octaves;
    const int steps = params_.mse_steps_per_octave;
    for (int r = 0; r < steps; ++r) {
      const int first = -((most_ + r) / steps);
      const int last = most_ >= r ? (most_ - r) / steps : -1;
      if (first > last) continue;
      octaves.resize(static_cast<size_t>(last - first) + 1);
      sums.SquaredErrors(format, Scale(kQuarters * r), first, octaves);
      for (int j = first; j <= last; ++j) {
        const int octave = j - first;
        errors[Position(r + j * steps)] = octaves[static_cast<size_t>(octave)];
      }
    }
    return errors;
  }

  // The best candidate of both rounds, from the errors of the first and by `error` in the second.
  // The second round goes around the best and, since a near tie of the first says little about it,
  // around others that are about as good.
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
    for (const int k : Outward()) take(kQuarters * k, error_of(k));
    const double limit = least + kNearTie * std::abs(least);
    int centers = 0;
    for (const int k : Outward()) {
      if (error_of(k) > limit || ++centers > kMaxCenters) continue;
      const int outward = k < 0 ? -1 : 1;
      for (int j = -kQuarters + 1; j < kQuarters; ++j) {
        const int at = kQuarters * k + outward * j;
        if (j != 0) take(at, error(Scale(at)));
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
  // 0, 1, -1, 2, -2, ...: of two that are equally good the one nearest to 0 is met first.
  std::vector<int> Outward() const {
    std::vector<int> order = {0};
    for (int k = 1; k <= most_; ++k) order.insert(order.end(), {k, -k});
    return order;
  }

  float amax_;
  const ScaleParams& params_;
  float base_;
  float target_;
  int octave_;  // quarter steps in an octave
  int most_;    // k of the first round's last candidate
};

int SearchExactly(std::span<const float> values, const NumberFormat& format,
                  const Candidates& candidates) {
  const auto error = [&](float scale) { return ExactError(values, format, scale); };
  return candidates.Search(candidates.Errors(error), error);
}

// Keeps the first-round candidates that may be the best and looks at their values one by one.
void DecideExactly(const Candidates& candidates, double limit,
                   const std::function<double(float)>& exact, std::vector<double>* errors) {
  for (int k = -candidates.most(); k <= candidates.most(); ++k) {
    double& error = (*errors)[candidates.Position(k)];
    const bool open = error <= limit || k == 0;
    error = open ? exact(candidates.Scale(kQuarters * k)) : std::numeric_limits<double>::infinity();
  }
}

int SearchValues(std::span<const float> values, const NumberFormat& format,
                 const Candidates& candidates, TailSums* sums) {
  const DecisionSteps& steps = StepsOf(format);
  std::vector<double> errors = candidates.Errors(*sums, steps);
  const auto least = std::min_element(errors.begin(), errors.end());
  const auto first = static_cast<int>(least - errors.begin()) - candidates.most();
  const double doubt = sums->Uncertainty(steps, candidates.Scale(kQuarters * first));
  // With many values in many bins, where each lies in its bin averages out.
  const bool exactly =
      !sums->AllAtEdges() &&
      (values.size() <= kExactPerFraction * steps.fraction.size() || doubt > kDoubtful * *least);
  std::function<double(float)> error = [&](float s) { return sums->SquaredError(steps, s); };
  if (exactly) {
    sums->Group(values);
    error = [&](float s) { return sums->ExactError(steps, s); };
    // The doubt is that of the worst case; differences of many bins largely cancel.
    const double window = std::max(doubt / 2, 1.5 * kNearTie * std::abs(*least));
    DecideExactly(candidates, *least + window, error, &errors);
  }
  const int best = candidates.Search(errors, error);
  if (best == 0) return 0;
  // `max` must not be given up for a difference that is none: where it could be one, both errors
  // are taken from quantized values.
  const float scale = candidates.Scale(best);
  const float plain = candidates.Scale(0);
  const double plain_error = error(plain);
  double margin = kRounding * std::abs(plain_error);
  if (!exactly) margin += sums->Uncertainty(steps, plain) + sums->Uncertainty(steps, scale);
  if (plain_error - error(scale) > margin) return best;
  return ExactError(values, format, scale) < ExactError(values, format, plain) ? best : 0;
}

class MseRule : public Calibrator {
 public:
  std::string_view name() const override { return "mse"; }
  std::string_view description() const override {
    return "the scale with the least squared error among candidates around that of max";
  }

  bool Searches() const override { return true; }
  std::optional<ScaleChoice> Search(float amax, const NumberFormat& format,
                                    const ScaleParams& params,
                                    const std::function<double(float)>& error) const override {
    const Candidates candidates(amax, format, params);
    if (amax == 0) return candidates.Choice(0);
    return candidates.Choice(candidates.Search(candidates.Errors(error), error));
  }

  ScaleChoice Solve(std::span<const float> values, const NumberFormat& format,
                    const ScaleParams& params) const override {
    if (values.size() > MagnitudeHistogram::kCapacity) {
      return SolvePieces([&](const auto& visit) { visit(values); }, format, params);
    }
    thread_local MagnitudeHistogram histogram;
    const bool small = values.size() <= kSmall;
    RunSummary summary;
    float amax = 0;
    if (small) {
      amax = Amax(values);
    } else {
      summary = histogram.Add(values);
      amax = std::bit_cast<float>(summary.amax_bits);
    }
    const Candidates candidates(amax, format, params);
    if (amax == 0) {
      if (!small) histogram.Clear(0, 1);
      return candidates.Choice(0);
    }
    if (small) return candidates.Choice(SearchExactly(values, format, candidates));
    thread_local TailSums sums;
    sums.Reset(&histogram, summary, values.size());
    return candidates.Choice(SearchValues(values, format, candidates, &sums));
  }

  // A record's sums, then the same last check.
  ScaleChoice SolvePieces(const ValuePieces& values, const NumberFormat& format,
                          const ScaleParams& params) const override {
    TensorStats stats;
    values([&](std::span<const float> piece) {
      stats.Add({DType::kF32,
                 {static_cast<int64_t>(piece.size())},
                 reinterpret_cast<const std::byte*>(piece.data())});
    });
    const ScaleChoice found = Solve(stats, format, params);
    const ScaleChoice plain = Candidates(stats.amax(), format, params).Choice(0);
    if (found.scale == plain.scale) return plain;
    double found_error = 0;
    double plain_error = 0;
    values([&](std::span<const float> piece) {
      found_error += ExactError(piece, format, found.scale);
      plain_error += ExactError(piece, format, plain.scale);
    });
    return found_error < plain_error ? found : plain;
  }

  ScaleChoice Solve(const TensorStats& stats, const NumberFormat& format,
                    const ScaleParams& params) const override {
    const Candidates candidates(stats.amax(), format, params);
    if (stats.amax() == 0) return candidates.Choice(0);
    const RecordSums sums(stats.Bins());
    const DecisionSteps& steps = StepsOf(format);
    const auto error = [&](float scale) { return sums.SquaredError(steps, scale); };
    return candidates.Choice(candidates.Search(candidates.Errors(error), error));
  }
};

}  // namespace

std::shared_ptr<const Calibrator> MakeMseRule() { return std::make_shared<MseRule>(); }

}  // namespace hif8
