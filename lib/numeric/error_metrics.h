// Error of a quantized tensor against its original, accumulated in double over any number of
// tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hif8 {

class ErrorMetrics {
 public:
  // Adds a pair of equally long runs: x the original, y the quantized-dequantized. Pairs in which
  // either is not finite are counted apart and left out. Runs are summed in fixed pieces, so that
  // the result depends on the order of calls only, not on threads.
  // Long runs are summed by several threads.
  void Add(std::span<const float> x, std::span<const float> y);
  // Counts |x| / scale at or above `overflow_threshold` and |x| above `reference` among the finite
  // values, beside Add().
  void CountRange(std::span<const float> x, float scale, float overflow_threshold, float reference);
  void Merge(const ErrorMetrics& other);

  uint64_t count() const { return count_; }
  uint64_t non_finite() const { return non_finite_; }
  // Returns 10 log10(sum x^2 / sum (x - y)^2); +inf when exact, NaN when x is all zero or nothing
  // was added.
  double SqnrDb() const;
  double Cosine() const;  // NaN when undefined
  // Returns the factor by which y fits x best: sum xy / sum x^2; NaN when undefined.
  double Gain() const;
  // Shares; NaN when nothing was counted.
  double ZeroRate() const;        // share with y = 0
  double ZeroedRate() const;      // share with y = 0 although x != 0
  double SaturationRate() const;  // share at or above the overflow threshold
  double ExceededRate() const;    // share above the reference magnitude
  double MaxAbsError() const { return max_abs_error_; }
  double Amax() const { return amax_; }
  double SignalEnergy() const { return signal_; }
  double NoiseEnergy() const { return noise_; }

 private:
  void AddPiece(std::span<const float> x, std::span<const float> y);

  uint64_t count_ = 0, non_finite_ = 0, zero_ = 0, zeroed_ = 0, saturated_ = 0, exceeded_ = 0,
           ranged_ = 0;
  double signal_ = 0, noise_ = 0, product_ = 0, quantized_ = 0, max_abs_error_ = 0, amax_ = 0;
};

}  // namespace hif8
