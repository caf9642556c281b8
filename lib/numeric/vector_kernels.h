// The inner loops of statistics and error sums, compiled for every instruction set and chosen at
// run time. Each gives the same bits on all of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hif8 {

struct MagnitudeScan {
  uint32_t most = 0;            // bits of the largest magnitude, NaN and infinity included
  uint32_t least = 0xFFFFFFFF;  // bits of the smallest magnitude above 0
  uint32_t zeros = 0;
};
// Scans n values, of which at most 2^31 are zero.
MagnitudeScan ScanMagnitudes(const float* x, size_t n);

// MagnitudeScan::most alone, of fp32 values and of bf16 values (any address), the latter as fp32
// bits.
uint32_t LargestMagnitude(const float* x, size_t n);
uint32_t LargestMagnitudeBF16(const std::byte* x, size_t n);

// Sums of one piece, in lanes: element i belongs to lane i % kErrorLanes, and each lane is summed
// in rising order.
inline constexpr size_t kErrorLanes = 8;
struct ErrorSums {
  using Lanes = std::array<double, kErrorLanes>;
  Lanes signal{}, noise{}, product{}, quantized{};  // of x^2, (x - y)^2, x y, y^2
  Lanes error{};                                    // largest |x - y|
};
// Adds n values, a multiple of kErrorLanes.
void AddErrorSums(const float* x, const float* y, size_t n, ErrorSums* sums);

// A format that rounds values of each binary exponent to the nearest multiple of a step of their
// own, a power of two: (y + shift) - shift is that multiple, with y cut off at the largest.
inline constexpr size_t kRoundingExponents = 32;
struct RoundingTable {
  std::array<float, kRoundingExponents> shift;  // 1.5 * 2^23 steps; the topmost exponent's last
  float largest;
};
inline constexpr size_t kRoundingLanes = 16;
inline constexpr size_t kMostRounded = 4096;  // sums in fp32 stay right to 2^-15
// sums[t] = sum of (y - y as tables[t] rounds it)^2, y = x[i] * factor, in fp32 by lanes of
// kRoundingLanes. `n`, a multiple of these, is at most kMostRounded; x[i] >= 0, and y < 2^(top + 1)
// for the exponent `top` that the tables' last shift is for. Values far below count as of the
// lowest exponent.
void SumRoundingErrors(const float* x, size_t n, float factor, int top,
                       std::span<const RoundingTable> tables, double* sums);

// sums[t] = sum of (y - y rounded to `bits` mantissa bits)^2, y = x[i] * factors[t], in fp32 by
// lanes of kRoundingLanes: as of a format of these bits at every exponent. `n` and x as above; bits
// from 0 to 22.
void SumMantissaErrors(const float* x, size_t n, std::span<const float> factors, int bits,
                       double* sums);

struct PairScan {
  uint32_t most_x = 0, most_y = 0;  // as MagnitudeScan::most
  uint32_t zero = 0;                // y = 0
  uint32_t zeroed = 0;              // y = 0 although x != 0
};
PairScan ScanPairs(const float* x, const float* y, size_t n);

struct RangeScan {
  uint32_t finite = 0;
  uint32_t saturated = 0;  // finite, and |x| / scale >= threshold
  uint32_t exceeded = 0;   // finite, and |x| > reference
};
RangeScan ScanRange(const float* x, size_t n, float scale, float threshold, float reference);

}  // namespace hif8
