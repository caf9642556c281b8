// Counts of fp32 magnitudes per exponent and top fraction bits: the one loop that statistics and
// scale searches spend their time in.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>

namespace hif8 {

// A bin holds all finite values whose fp32 bits agree in the exponent and the top 7 fraction bits.
inline constexpr int kBinFractionBits = 7;
inline constexpr int kBinLowBits = 23 - kBinFractionBits;
inline constexpr uint32_t kFiniteBins = 0x7f800000u >> kBinLowBits;

// Smallest magnitude of a bin; kFiniteBins is the end of the last one.
inline double BinEdge(uint32_t bin) {
  return bin < kFiniteBins ? static_cast<double>(std::bit_cast<float>(bin << kBinLowBits))
                           : 0x1p128;
}

// Sums up what one pass over a run of values found beside the bins.
struct RunSummary {
  uint32_t amax_bits = 0;            // bits of the largest finite magnitude
  uint32_t least_bits = 0xFFFFFFFF;  // bits of the smallest finite magnitude above 0
  uint64_t zeros = 0;
  uint64_t nans = 0;
  uint64_t infs = 0;

  void Merge(const RunSummary& other);
};

// The bins, 256 KiB of zeroed pages that the system hands out when they are first touched. Each
// entry packs two exact integers, so that a value costs one addition: its count (upper 24 bits) and
// the sum of the low 16 bits of its values' fp32 patterns (lower 40 bits).
class MagnitudeHistogram {
 public:
  // More values than this in one bin would overflow its fields.
  static constexpr size_t kCapacity = (size_t{1} << 24) - 1;

  // No memory until the first Add().
  bool allocated() const { return bins_ != nullptr; }

  // Counts all finite values, zeros (in bin 0) included. At most kCapacity values between clears.
  RunSummary Add(std::span<const float> values);

  uint64_t Count(uint32_t bin) const { return bins_[bin] >> kCountShift; }
  uint64_t LowSum(uint32_t bin) const { return bins_[bin] & kLowMask; }
  bool Empty(uint32_t bin) const { return bins_[bin] == 0; }
  struct Bin {
    uint64_t count, low_sum;
  };
  // Returns a bin's Count() and LowSum(); empties it.
  Bin Take(uint32_t bin) {
    const uint64_t packed = std::exchange(bins_[bin], 0);
    return {packed >> kCountShift, packed & kLowMask};
  }
  // Adds what `other` holds, which is of one run with that summary, and empties it.
  void Take(MagnitudeHistogram* other, const RunSummary& summary);
  // Empties bins [begin, end).
  void Clear(uint32_t begin, uint32_t end);
  // Takes the zeros, `n` of them, out of bin 0 again, so that only positive magnitudes are left.
  void RemoveZeros(uint64_t n) { bins_[0] -= n << kCountShift; }
  // Gives the memory back.
  void Release() { bins_.reset(); }

 private:
  void Allocate();

  static constexpr int kCountShift = 40;
  static constexpr uint64_t kLowMask = (uint64_t{1} << kCountShift) - 1;
  struct Free {
    void operator()(uint64_t* p) const { std::free(p); }
  };
  std::unique_ptr<uint64_t[], Free> bins_;
};

}  // namespace hif8
