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
#include <utility>
#include <vector>

#include "calibrators/amax_rule.h"
#include "calibrators/rounding_errors.h"
#include "calibrators/rules.h"
#include "calibrators/tail_sums.h"
#include "lib/numeric/vector_kernels.h"

namespace hif8 {
namespace {

constexpr int kQuarters = 4;  // the second round's steps in one of the first
// Up to here rounding every value for every candidate costs no more than a table of sums; with
// more values in a bin of that table, where each lies averages out.
constexpr size_t kFew = kMostRounded;
// Values in bins that thresholds cut are looked at one by one where the sums are more in doubt than
// this, relative to the error: when a few large values make most of it.
constexpr double kDoubtful = 0.08;
// Sums that should be equal may differ in their last digits.
constexpr double kTie = 1e-9;
// What rounding in fp32, of products of scale and code too, can make of an error, relatively, and
// more; and relative to the root of it times the energy of the values.
constexpr double kRounding = 1e-4;
constexpr double kRounded = 0x1p-21;
// Scales farther from that of `max` are not looked at in fp32.
constexpr int kMostOctaves = 16;
// First-round candidates whose errors differ by less than this, relatively, all go to the second,
// at most so many of them.
constexpr double kNearTie = 0.01;
constexpr int kMaxCenters = 6;

bool SameBytes(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// The steps of a format, derived again only when another format comes.
const DecisionSteps& StepsOf(const NumberFormat& format) {
  thread_local std::vector<float> table;
  thread_local DecisionSteps steps({});
  const std::span<const float> wanted = format.DecodeTable();
  if (!SameBytes(table, wanted)) {
    table.assign(wanted.begin(), wanted.end());
    steps = DecisionSteps(wanted);
  }
  return steps;
}

// The tables of a format, null where it has none: made again only for another format or range.
const RoundingTables* TablesOf(const NumberFormat& format, float target, int octaves) {
  struct Made {
    std::vector<float> table;
    float target = 0;
    int octaves = 0;
    std::optional<RoundingTables> tables;
  };
  thread_local Made made;
  const std::span<const float> wanted = format.DecodeTable();
  if (made.target != target || made.octaves != octaves || !SameBytes(made.table, wanted)) {
    made = {{wanted.begin(), wanted.end()},
            target,
            octaves,
            RoundingTables::Make(wanted, target, octaves)};
  }
  return made.tables ? &*made.tables : nullptr;
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

  // Where candidate k of the first round stands in a list of all of them.
  size_t Position(int k) const {
    const int position = k + most_;
    return static_cast<size_t>(position);
  }
  // 0, 1, -1, 2, -2, ...: of two that are equally good the one nearest to 0 is met first.
  static int Outward(int i) { return i % 2 == 0 ? -i / 2 : (i + 1) / 2; }
  int most() const { return most_; }
  float amax() const { return amax_; }
  float target() const { return target_; }

  // The errors of the first round's candidates k = -most ... most by `error`, a function of the
  // scale.
  template <typename F>
  std::vector<double> Errors(const F& error) const {
    std::vector<double> errors;
    for (int k = -most_; k <= most_; ++k) errors.push_back(error(Scale(kQuarters * k)));
    return errors;
  }
  // The same all octaves of a fraction at once: `errors_of` fills in those of scale * 2^j for
  // consecutive j.
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

  // The best candidate of both rounds, from the errors of the first and by `error`, a function of
  // the candidate, in the second.
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
  // 2^(i / octave) for i from 0 to octave - 1: made again only for another number of steps.
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

int SearchExactly(std::span<const float> values, const NumberFormat& format,
                  const Candidates& candidates) {
  const auto error = [&](float scale) { return ExactError(values, format, scale); };
  return candidates.Search(candidates.Errors(error),
                           [&](int at) { return error(candidates.Scale(at)); });
}

// Finds the candidates that may be the best by rounding in fp32, and decides among them exactly.
int SearchRounded(std::span<const float> values, const NumberFormat& format,
                  const Candidates& candidates, const RoundingErrors& rounded) {
  const std::vector<double> errors =
      candidates.ErrorsByOctave([&](float scale, int first, std::span<double> out) {
        rounded.SquaredErrors(scale, first, out);
      });
  std::vector<std::pair<int, double>> seen;
  for (int i = 0; i <= 2 * candidates.most(); ++i) {
    const int k = Candidates::Outward(i);
    seen.emplace_back(kQuarters * k, errors[candidates.Position(k)]);
  }
  candidates.Search(errors, [&](int at) {
    double error = 0;
    rounded.SquaredErrors(candidates.Scale(at), 0, {&error, 1});
    seen.emplace_back(at, error);
    return error;
  });
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [at, error] : seen) least = std::min(least, error);
  const double energy = static_cast<double>(candidates.amax()) * candidates.amax() *
                        static_cast<double>(values.size());  // at most
  const double limit = least + kRounding * least + kRounded * std::sqrt(least * energy) +
                       kRounded * kRounded * energy;
  int best = 0;
  double best_error = ExactError(values, format, candidates.Scale(0));
  for (const auto& [at, error] : seen) {
    if (at == 0 || error > limit) continue;
    const double exact = ExactError(values, format, candidates.Scale(at));
    if (exact < best_error - kTie * best_error) {
      best = at;
      best_error = exact;
    }
  }
  return best;
}

int SearchFew(std::span<const float> values, const NumberFormat& format,
              const Candidates& candidates, const ScaleParams& params) {
  const int octaves = static_cast<int>(std::ceil(params.mse.octaves)) + 2;
  const RoundingTables* tables = TablesOf(format, candidates.target(), octaves);
  // Far from the ends of fp32, whatever the candidate.
  const float amax = candidates.amax();
  const bool usual = amax > 0x1p-60F && amax < 0x1p60F && octaves <= kMostOctaves;
  if (tables == nullptr || !usual) return SearchExactly(values, format, candidates);
  return SearchRounded(values, format, candidates,
                       RoundingErrors(*tables, values, candidates.Scale(0)));
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
  std::vector<double> errors =
      candidates.ErrorsByOctave([&](float scale, int first, std::span<double> out) {
        double octave = std::ldexp(static_cast<double>(scale), first);
        for (double& error : out) {
          error = sums->SquaredError(steps, octave);
          octave *= 2;
        }
      });
  const auto least = std::min_element(errors.begin(), errors.end());
  const auto first = static_cast<int>(least - errors.begin()) - candidates.most();
  const double doubt = sums->Uncertainty(steps, candidates.Scale(kQuarters * first));
  const bool exactly = !sums->AllAtEdges() && doubt > kDoubtful * *least;
  std::function<double(float)> error = [&](float s) { return sums->SquaredError(steps, s); };
  if (exactly) {
    sums->Group(values);
    error = [&](float s) { return sums->ExactError(steps, s); };
    // The doubt is that of the worst case; differences of many bins largely cancel.
    const double window = std::max(doubt / 2, 1.5 * kNearTie * std::abs(*least));
    DecideExactly(candidates, *least + window, error, &errors);
  }
  const int best = candidates.Search(errors, [&](int at) { return error(candidates.Scale(at)); });
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

class MseRule : public Calibrator, public ScaleSearch {
 public:
  std::string_view name() const override { return "mse"; }
  std::string_view description() const override {
    return "the scale with the least squared error among candidates around that of max";
  }
  const RuleTraits& traits() const override {
    static constexpr RuleTraits kTraits{.caches = true, .settings = "mse"};
    return kTraits;
  }

  const ScaleSearch* search() const override { return this; }
  ScaleChoice Search(float amax, const NumberFormat& format, const ScaleParams& params,
                     const std::function<double(float)>& error) const override {
    const Candidates candidates(amax, format, params);
    if (amax == 0) return candidates.Choice(0);
    return candidates.Choice(candidates.Search(
        candidates.Errors(error), [&](int at) { return error(candidates.Scale(at)); }));
  }

  ScaleChoice Solve(std::span<const float> values, const NumberFormat& format,
                    const ScaleParams& params) const override {
    if (values.size() > MagnitudeHistogram::kCapacity) {
      return SolvePieces([&](const auto& visit) { visit(values); }, format, params);
    }
    const bool few = values.size() <= kFew;
    thread_local MagnitudeHistogram histogram;
    const RunSummary summary = few ? RunSummary() : histogram.Add(values);
    const float amax = few ? Amax(values) : std::bit_cast<float>(summary.amax_bits);
    const Candidates candidates(amax, format, params);
    if (amax == 0) {
      if (!few) histogram.Clear(0, 1);
      return candidates.Choice(0);
    }
    if (few) return candidates.Choice(SearchFew(values, format, candidates, params));
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
    return candidates.Choice(candidates.Search(
        candidates.Errors(error), [&](int at) { return error(candidates.Scale(at)); }));
  }
};

}  // namespace

std::shared_ptr<const Calibrator> MakeMseRule() { return std::make_shared<MseRule>(); }

}  // namespace hif8
