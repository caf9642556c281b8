// The squared error of quantizing a set of magnitudes, for any scale, from sums over bins.
//
// With codes v_0 = 0 < v_1 < ... and decision thresholds t_i halfway between them, the squared
// error e(x) = (x - q(x))^2 is continuous, and its slope 2 (x - q(x)) drops by 2 (v_{i+1} - v_i) at
// t_i:
//   e(x) = x^2 - sum_i 2 (v_{i+1} - v_i) max(0, x - t_i).
// So the error of all values at scale s is
//   sum x^2 - 2 s sum_i (v_{i+1} - v_i) H(s t_i),   H(t) = sum over x of max(0, x - t),
// and one table of H answers every scale with one look-up per threshold.
//
// Floating-point formats have chains of thresholds t, 2 t, ... 2^n t whose steps double as well.
// With P(t) = H(t) + P(t / 2) / 2, the sum of 2^i H(s 2^i t) over i = 0 ... n is 2^n P(s 2^n t) -
// P(s t / 2) / 2: a table of P takes two look-ups per chain.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/numeric/magnitude_histogram.h"
#include "lib/numeric/number_format.h"
#include "lib/numeric/tail_segments.h"
#include "lib/numeric/tensor_stats.h"

namespace hif8 {

// The decision thresholds of a format that rounds to nearest, and the steps v_{i+1} - v_i there.
struct DecisionSteps {
  explicit DecisionSteps(std::span<const float> decode_table);

  std::vector<double> threshold;  // rising
  std::vector<double> step;
  // Sums over the first thresholds: of the steps, and of step * threshold. threshold.size() + 1
  // entries.
  std::vector<double> step_sum, moment_sum;

  // Thresholds threshold * 2^i with steps step * 2^i, for i from 0 to length - 1.
  struct Chain {
    double threshold, step;
    int64_t length;
  };
  // All of them as chains, rising; empty where that would not be quicker.
  std::vector<Chain> chains;
};

// For the values of one channel, quickly.
class TailSums {
 public:
  // Takes other magnitudes; the memory of the previous ones is used again.
  // From a histogram of one run of `count` values with its summary, amax > 0. Leaves the histogram
  // empty.
  void Reset(MagnitudeHistogram* histogram, const RunSummary& summary, uint64_t count);

  // Returns the sum of squares of x - s q(x / s), up to a constant (the spread within bins) that
  // is the same for all scales and far below it.
  double SquaredError(const DecisionSteps& format, double scale) const;
  // Bounds how far SquaredError can be from the truth, the constant aside, wherever in their bins
  // the values lie.
  double Uncertainty(const DecisionSteps& format, double scale) const;
  // True when all values lie at their bins' edges, as values of few bits do: no uncertainty then.
  bool AllAtEdges() const { return all_at_edges_; }

  // Sorts the values that the histogram was made of into its bins, for ExactError().
  void Group(std::span<const float> values);
  // SquaredError with the values in bins that a threshold cuts looked at one by one: right to what
  // is negligible.
  double ExactError(const DecisionSteps& format, double scale) const;

 private:
  size_t Index(double t) const {
    return top_ - (std::bit_cast<uint32_t>(static_cast<float>(t)) >> shift_);
  }
  // The sum of step * value(t, segment at t) over the thresholds that segments reach down to.
  template <typename F>
  double SumOverThresholds(const DecisionSteps& format, double scale, size_t* first,
                           const F& value) const;
  void AddOctave(MagnitudeHistogram* histogram, uint32_t bin, uint32_t end, Tail* tail);
  double GainOfChains(const DecisionSteps& format, double scale) const;

  // The values of one segment: grouped_[begin] up to the next segment's begin; and all above it.
  struct Members {
    size_t begin;
    double count, sum;
  };

  size_t size_ = 0;  // of the first three lists, which may be longer
  // Hold segments by bits of t, falling from amax's; whole octaves but the first. Of H, and, where
  // all of them lie in octaves (`chained_`), of P.
  std::vector<TailSegment> segments_, chains_;
  bool chained_ = false;
  std::vector<double> bounds_;  // how far H can be from the truth, by segment
  int shift_ = 0;               // a segment is 2^shift_ bit patterns of t long
  uint32_t top_ = 0;            // (bits of t) >> shift_ of the first segment
  double end_ = 0;              // H is 0 from here
  double bottom_ = 0;           // the lower end of the last segment
  double sum_ = 0;              // of all values that the segments reach down to
  double count_ = 0;            // their number
  double energy_ = 0;           // sum of squares of all values, about
  bool all_at_edges_ = false;
  std::vector<float> grouped_;    // magnitudes by segment
  std::vector<Members> members_;  // one more than segments
};

// For a record: values within a bin are where the record models them. Slower, and as right as the
// bins allow.
class RecordSums {
 public:
  // `bins` rise and are not empty.
  explicit RecordSums(std::span<const MagnitudeBin> bins);
  // Computes what TailSums::SquaredError does.
  double SquaredError(const DecisionSteps& format, double scale) const;

 private:
  // A bin's values, and count and sum of all above it.
  struct Above {
    double count, sum;
    double in_bin, mean, spread;
  };
  double H(double t) const;

  std::vector<Above> tails_;  // by bin, falling from amax's; the last one for all lower bins
  uint32_t top_ = 0;          // bin of amax
  double end_ = 0;            // H is 0 from here
  double energy_ = 0;
};

}  // namespace hif8
