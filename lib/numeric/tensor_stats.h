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

// One magnitude bin: all values whose fp32 bits agree in the exponent and the top 7 fraction bits.
struct MagnitudeBin {
  float low = 0;       // smallest magnitude of the bin
  float width = 0;     // magnitudes are in [low, low + width)
  double mean = 0;     // exact mean of the magnitudes seen
  uint64_t count = 0;  // number of values, > 0
};

// Everything is a count or an integer sum, so that merging is exact and free of order (the trace
// excepted: it is concatenated). Finite values only; non-finite ones are counted and left out.
class TensorStats {
 public:
  TensorStats();
  ~TensorStats();
  TensorStats(TensorStats&&) noexcept;
  TensorStats& operator=(TensorStats&&) noexcept;

  // Adds a tensor (F32, F16, BF16 or F64) that holds `samples` >= 1 consecutive samples: equal
  // parts along its memory when its size divides, else one trace entry is repeated. An empty tensor
  // adds nothing.
  void Add(const TensorView& tensor, size_t samples = 1);
  // What one pass over this record's data and then the other's would give.
  void Merge(const TensorStats& later);

  uint64_t count() const;  // finite values
  uint64_t zeros() const;  // of them exactly zero
  uint64_t nan_count() const;
  uint64_t inf_count() const;
  uint64_t samples() const;  // samples that held at least one value
  float amax() const;        // largest finite magnitude, 0 when none
  // amax of each sample in order; NaN marks a sample in which a non-finite value occurred.
  std::span<const float> trace() const;

  // Nonzero magnitudes in rising order. Within 32 octaves of amax bins are 2^-7 wide relative to
  // their octave; below that, one bin per octave.
  std::vector<MagnitudeBin> Bins() const;
  // Magnitude at nearest rank ceil(p / 100 * count), zeros included, right to 2^-8 relative; exact
  // for 100. `percent` in (0, 100].
  float Percentile(double percent) const;

  // The record as bytes and back; the bins of one record take at most 32 KiB. Throws kModel when
  // the bytes are not a record (`where` names the file).
  std::string Serialize() const;
  static TensorStats Parse(std::string_view bytes, const std::string& where);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hif8
