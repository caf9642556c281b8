#include "lib/numeric/magnitude_histogram.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "lib/numeric/vector_kernels.h"

namespace hif8 {
namespace {

constexpr uint32_t kMagnitudeMask = 0x7fffffffu;
constexpr uint32_t kInfinityBits = 0x7f800000u;
constexpr size_t kBlock = 2048;  // 8 KiB: the second pass over a block finds it in the L1 cache

}  // namespace

void RunSummary::Merge(const RunSummary& other) {
  amax_bits = std::max(amax_bits, other.amax_bits);
  least_bits = std::min(least_bits, other.least_bits);
  zeros += other.zeros;
  nans += other.nans;
  infs += other.infs;
}

void MagnitudeHistogram::Allocate() {
  if (bins_) return;
  bins_.reset(static_cast<uint64_t*>(std::calloc(kFiniteBins, sizeof(uint64_t))));
  if (!bins_) throw std::bad_alloc();
}

RunSummary MagnitudeHistogram::Add(std::span<const float> values) {
  RunSummary summary;
  if (values.empty()) return summary;
  Allocate();
  uint64_t* const bins = bins_.get();
  constexpr uint64_t kOne = uint64_t{1} << kCountShift;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const float* x = values.data() + begin;
    const size_t n = std::min(kBlock, values.size() - begin);
    const MagnitudeScan scan = ScanMagnitudes(x, n);
    summary.zeros += scan.zeros;
    // An infinity or NaN is least only where nothing else is.
    summary.least_bits = std::min(summary.least_bits, scan.least);
    if (scan.most < kInfinityBits) {
      summary.amax_bits = std::max(summary.amax_bits, scan.most);
      size_t i = 0;
      for (; i + 2 <= n; i += 2) {  // two values per load
        uint64_t pair;
        std::memcpy(&pair, x + i, sizeof(pair));
        bins[(pair >> 16) & 0x7fff] += kOne + (pair & 0xffff);
        bins[(pair >> 48) & 0x7fff] += kOne + ((pair >> 32) & 0xffff);
      }
      if (i < n) {
        const auto bits = std::bit_cast<uint32_t>(x[i]) & kMagnitudeMask;
        bins[bits >> kBinLowBits] += kOne + (bits & 0xffff);
      }
      continue;
    }
    for (size_t i = 0; i < n; ++i) {
      const auto bits = std::bit_cast<uint32_t>(x[i]) & kMagnitudeMask;
      if (bits < kInfinityBits) {
        bins[bits >> kBinLowBits] += kOne + (bits & 0xffff);
        summary.amax_bits = std::max(summary.amax_bits, bits);
      } else {
        ++(bits == kInfinityBits ? summary.infs : summary.nans);
      }
    }
  }
  return summary;
}

void MagnitudeHistogram::Take(MagnitudeHistogram* other, const RunSummary& summary) {
  Allocate();
  if (summary.zeros > 0) bins_[0] += std::exchange(other->bins_[0], 0);
  const uint32_t end = (summary.amax_bits >> kBinLowBits) + 1;
  for (uint32_t bin = summary.least_bits >> kBinLowBits; bin < end; ++bin) {
    bins_[bin] += std::exchange(other->bins_[bin], 0);
  }
}

void MagnitudeHistogram::Clear(uint32_t begin, uint32_t end) {
  // Pages that were never touched stay so.
  for (uint32_t bin = begin; bin < end; ++bin) {
    if (bins_[bin] != 0) bins_[bin] = 0;
  }
}

}  // namespace hif8
