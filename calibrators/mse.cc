// Rule `mse`: the candidate scale with the least squared error.
//
// A format whose widest band spans a few binades, the largest value mapped to its top, rounds at
// s / 2 as it does at s but for what lies outside of the band. So few values are searched densely
// in one octave: all quarter steps from s_max to 2 s_max, and octaves below those whose error a
// format with the band's precision everywhere would make less than the best found. No scale among
// all quarter steps is better by more than kRounding.
//
// Otherwise candidates are s_k = s_max 2^(k / steps), k from -octaves * steps to octaves * steps,
// with s_max the scale of rule `max`; then again in a quarter of the steps around the best, and
// around others that are as good to 1 %: a near tie of the first round says little about the
// second. Ties go to the candidate nearest to k = 0.
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
#include "calibrators/candidates.h"
#include "calibrators/rounding_errors.h"
#include "calibrators/rules.h"
#include "calibrators/tail_sums.h"
#include "lib/numeric/vector_kernels.h"

namespace hif8 {
namespace {

// Up to here rounding every value for every candidate costs no more than a table of sums; with
// more values in a bin of that table, where each lies averages out. For a search of one octave.
constexpr size_t kFew = 2048;
constexpr size_t kFewInBand = kMostRounded;
// Values in bins that thresholds cut are looked at one by one where the sums are more in doubt than
// this, relative to the error: when a few large values make most of it.
constexpr double kDoubtful = 0.08;
// What rounding in fp32, of products of scale and code too, can make of an error, relatively, and
// more; and relative to the root of it times the energy of the values.
constexpr double kRounding = 1e-4;
constexpr double kRounded = 0x1p-21;
// Scales farther from that of `max` are not looked at in fp32.
constexpr int kMostOctaves = 16;
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

int TableOctaves(const ScaleParams& params) {
  return static_cast<int>(std::ceil(params.mse.octaves)) + 2;
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

int SearchExactly(std::span<const float> values, const NumberFormat& format,
                  const Candidates& candidates) {
  const auto error = [&](float scale) { return ExactError(values, format, scale); };
  return candidates.Search(candidates.Errors(error),
                           [&](int at) { return error(candidates.Scale(at)); });
}

// A candidate and its error, computed in fp32.
using Found = std::pair<int, double>;

// Decides by exact errors among those that may be the best.
int DecideAmong(const std::vector<Found>& seen, std::span<const float> values,
                const NumberFormat& format, const Candidates& candidates) {
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

int SearchRounded(std::span<const float> values, const NumberFormat& format,
                  const Candidates& candidates, const RoundingErrors& rounded) {
  const std::vector<double> errors =
      candidates.ErrorsByOctave([&](float scale, int first, std::span<double> out) {
        rounded.SquaredErrors(scale, first, out);
      });
  std::vector<Found> seen;
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
  return DecideAmong(seen, values, format, candidates);
}

// Looks at the fractions of an octave by what each could give at best, until no other can.
int SearchDensely(std::span<const float> values, const NumberFormat& format,
                  const Candidates& candidates, const RoundingErrors& rounded, int bits) {
  const auto octave = static_cast<size_t>(candidates.octave());
  std::vector<float> scales(octave);
  for (size_t r = 0; r < octave; ++r) scales[r] = candidates.Scale(static_cast<int>(r));
  std::vector<double> bounds = rounded.LeastErrors(scales, bits);
  const int below = candidates.octaves_below();
  std::vector<double> errors(static_cast<size_t>(below));
  std::vector<Found> seen;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < octave; ++i) {
    const auto next = std::min_element(bounds.begin(), bounds.end());
    const auto r = static_cast<int>(next - bounds.begin());
    const auto may_win = [&] { return *next < least - kRounding * least; };
    if (!may_win() && i > 0) break;
    const float scale = scales[static_cast<size_t>(r)];
    double error = 0;
    rounded.SquaredErrors(scale, 0, {&error, 1});
    seen.emplace_back(r, error);
    least = std::min(least, error);
    if (may_win()) {
      rounded.SquaredErrors(scale, -below, errors);
      for (int j = 0; j < below; ++j) {
        seen.emplace_back(r + (j - below) * candidates.octave(), errors[static_cast<size_t>(j)]);
        least = std::min(least, errors[static_cast<size_t>(j)]);
      }
    }
    *next = std::numeric_limits<double>::infinity();
  }
  // Of those that are equally good the one nearest to 0 wins.
  std::sort(seen.begin(), seen.end(), [](const Found& a, const Found& b) {
    return std::pair(std::abs(a.first), a.first < 0) < std::pair(std::abs(b.first), b.first < 0);
  });
  return DecideAmong(seen, values, format, candidates);
}

// The mantissa bits of the format's widest band where one octave is searched densely.
std::optional<int> DenseBits(const NumberFormat& format, const Candidates& candidates,
                             const ScaleParams& params) {
  const int octaves = TableOctaves(params);
  if (octaves > kMostOctaves || candidates.octaves_below() < 1 || params.power_of_two) return {};
  const RoundingTables* tables = TablesOf(format, candidates.target(), octaves);
  if (tables == nullptr || !tables->band()) return {};
  if (tables->band()->top != candidates.target()) return {};
  return tables->band()->bits;
}

int SearchFew(std::span<const float> values, const NumberFormat& format,
              const Candidates& candidates, const ScaleParams& params) {
  const int octaves = TableOctaves(params);
  const RoundingTables* tables = TablesOf(format, candidates.target(), octaves);
  // Far from the ends of fp32, whatever the candidate.
  const float amax = candidates.amax();
  const bool usual = amax > 0x1p-60F && amax < 0x1p60F && octaves <= kMostOctaves;
  if (tables == nullptr || !usual) return SearchExactly(values, format, candidates);
  const RoundingErrors rounded(*tables, values, candidates.Scale(0));
  if (const std::optional<int> bits = DenseBits(format, candidates, params)) {
    return SearchDensely(values, format, candidates, rounded, *bits);
  }
  return SearchRounded(values, format, candidates, rounded);
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
    const bool few =
        values.size() <= kFew ||
        (values.size() <= kFewInBand && DenseBits(format, Candidates(1, format, params), params));
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
    std::vector<float> held;  // all of them, while they are few
    size_t count = 0;
    values([&](std::span<const float> piece) {
      count += piece.size();
      if (count <= kFew) held.insert(held.end(), piece.begin(), piece.end());
      stats.Add({DType::kF32,
                 {static_cast<int64_t>(piece.size())},
                 reinterpret_cast<const std::byte*>(piece.data())});
    });
    if (count <= kFew) return Solve(held, format, params);
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
