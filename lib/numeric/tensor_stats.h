// The streaming, mergeable record of one operand: what every scale rule needs, in constant memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/tensor.h"

namespace hif8 {

// One magnitude bin: all values whose fp32 bits agree in the exponent and the top 7 fraction bits
// (far below amax: in the exponent).
struct MagnitudeBin {
  double low = 0;      // smallest magnitude of the bin
  double width = 0;    // magnitudes are in [low, low + width)
  double mean = 0;     // exact mean of the magnitudes seen
  double spread = 0;   // they are modelled as uniform in mean +- spread; 0: all at the mean
  uint64_t count = 0;  // number of values, > 0
};

struct ExponentCount {
  int exponent = 0;    // floor(log2 |x|); subnormal fp32 values count as -127
  uint64_t count = 0;  // > 0
};

// The position, from 1, of a percentile by nearest rank: ceil(percent / 100 * count), at least 1.
uint64_t NearestRank(double percent, uint64_t count);

// Everything is a count or an integer sum, so that merging is exact and free of order (the trace
// excepted: it is concatenated). Finite values only; non-finite ones are counted and left out.
//
// Resolution: within 32 octaves (that of amax and the 31 below) bins are 2^-7 of their octave wide;
// below, there is one bin per octave. Which bins are collapsed depends on amax alone and collapsing
// adds bins up, so that it commutes with merging: collapsing for a smaller amax first changes
// nothing. Every HiF8 value lies within 30 octaves of amax for every scale that a search tries.
//
// A record that was never added to is a few words; one in use takes 256 KiB of address space, of
// which only the pages of octaves that occur become memory.
class TensorStats {
 public:
  TensorStats();
  ~TensorStats();
  TensorStats(TensorStats&&) noexcept;
  TensorStats& operator=(TensorStats&&) noexcept;

  // Adds a tensor (F32, F16, BF16 or F64, which is rounded to fp32) that holds `samples` >= 1
  // consecutive samples: equal parts along its memory when its size divides, else one trace entry
  // is repeated. An empty tensor adds nothing. Not to be called from two threads at once.
  void Add(const TensorView& tensor, size_t samples = 1);
  // Gives back memory that Add() works with: for a record that nothing is added to for a while.
  void Compact();
  // Adds what one pass over this record's data and then the other's would give.
  void Merge(const TensorStats& later);

  uint64_t count() const;  // finite values
  uint64_t zeros() const;  // of them exactly zero
  uint64_t nan_count() const;
  uint64_t inf_count() const;
  uint64_t samples() const;  // samples that held at least one value
  float amax() const;        // largest finite magnitude, 0 when none
  // amax of each sample in order; NaN marks a sample in which a non-finite value occurred.
  std::span<const float> trace() const;
  // Moves the trace to the end of `out`, and appends to it: for samples that are counted in another
  // order than they have.
  void TakeTrace(std::vector<float>* out);
  void AppendTrace(std::span<const float> amaxes);

  // Nonzero magnitudes in rising order.
  std::vector<MagnitudeBin> Bins() const;
  // Magnitude at NearestRank(percent, count()), zeros included; right to 2^-7 relative where bins
  // are fine and to a factor of 2 below; exact for 100. `percent` in (0, 100]; 0 when empty.
  float Percentile(double percent) const;
  // Counts magnitudes that exceed `threshold`: exact but for the values in the bin it falls into,
  // whose share is estimated.
  double CountAbove(double threshold) const;
  // Nonzero magnitudes per octave, rising.
  std::vector<ExponentCount> Exponents() const;

  // Converts the record to bytes and back, with all answers unchanged. Without the trace (4 bytes a
  // sample) the bytes stay below 32 KiB for up to 10^9 values however they are distributed; a
  // normal distribution never gets there.
  std::string Serialize() const;
  // Throws kModel when the bytes are not a record (`where` names the file).
  static TensorStats Parse(std::string_view bytes, const std::string& where);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hif8
