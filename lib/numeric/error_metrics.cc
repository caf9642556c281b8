#include "lib/numeric/error_metrics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "lib/core/parallel.h"
#include "lib/numeric/vector_kernels.h"

namespace hif8 {
namespace {

constexpr size_t kPiece = 4096;                    // values summed before they meet the total
constexpr size_t kParallel = size_t{64} * kPiece;  // run length from which threads are worth it
constexpr uint32_t kInfinityBits = 0x7f800000u;

// One value, as AddErrorSums adds many.
void AddOne(float x, float y, size_t lane, ErrorSums* sums) {
  const double a = x;
  const double b = y;
  const double d = a - b;
  sums->signal[lane] += a * a;
  sums->noise[lane] += d * d;
  sums->product[lane] += a * b;
  sums->quantized[lane] += b * b;
  sums->error[lane] = std::max(sums->error[lane], std::abs(d));
}

// In a fixed order.
double Total(const ErrorSums::Lanes& lanes) {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

double Ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? std::numeric_limits<double>::quiet_NaN()
                    : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void ErrorMetrics::AddPiece(std::span<const float> x, std::span<const float> y) {
  const size_t n = x.size();
  ErrorSums sums;
  const PairScan scan = ScanPairs(x.data(), y.data(), n);
  if (scan.most_x < kInfinityBits && scan.most_y < kInfinityBits) {
    const size_t whole = n - n % kErrorLanes;
    AddErrorSums(x.data(), y.data(), whole, &sums);
    for (size_t i = whole; i < n; ++i) AddOne(x[i], y[i], i % kErrorLanes, &sums);
    count_ += n;
    zero_ += scan.zero;
    zeroed_ += scan.zeroed;
    amax_ = std::max<double>(amax_, std::bit_cast<float>(scan.most_x));
  } else {
    for (size_t i = 0; i < n; ++i) {
      if (!std::isfinite(x[i]) || !std::isfinite(y[i])) {
        ++non_finite_;
        continue;
      }
      AddOne(x[i], y[i], i % kErrorLanes, &sums);
      ++count_;
      zero_ += y[i] == 0 ? 1 : 0;
      zeroed_ += y[i] == 0 && x[i] != 0 ? 1 : 0;
      amax_ = std::max<double>(amax_, std::abs(x[i]));
    }
  }
  signal_ += Total(sums.signal);
  noise_ += Total(sums.noise);
  product_ += Total(sums.product);
  quantized_ += Total(sums.quantized);
  max_abs_error_ = std::max(max_abs_error_, *std::ranges::max_element(sums.error));
}

void ErrorMetrics::Add(std::span<const float> x, std::span<const float> y) {
  const size_t n = std::min(x.size(), y.size());
  const size_t pieces = (n + kPiece - 1) / kPiece;
  const auto piece = [&](size_t i, ErrorMetrics* out) {
    const size_t size = std::min(kPiece, n - i * kPiece);
    out->AddPiece(x.subspan(i * kPiece, size), y.subspan(i * kPiece, size));
  };
  if (n < kParallel) {
    for (size_t i = 0; i < pieces; ++i) piece(i, this);
    return;
  }
  // Each piece apart, then added in order: the same sums as above.
  std::vector<ErrorMetrics> parts(pieces);
  constexpr size_t kPerTask = 16;
  ParallelFor((pieces + kPerTask - 1) / kPerTask, [&](size_t task) {
    const size_t end = std::min(pieces, (task + 1) * kPerTask);
    for (size_t i = task * kPerTask; i < end; ++i) piece(i, &parts[i]);
  });
  for (const ErrorMetrics& part : parts) Merge(part);
}

void ErrorMetrics::CountRange(std::span<const float> x, float scale, float overflow_threshold,
                              float reference) {
  for (size_t begin = 0; begin < x.size(); begin += kPiece) {
    const size_t n = std::min(kPiece, x.size() - begin);
    // Division is monotone: where the largest value does not count, none does.
    const uint32_t most_bits = LargestMagnitude(x.data() + begin, n);
    const auto most = std::bit_cast<float>(most_bits);
    if (most_bits < kInfinityBits && most / scale < overflow_threshold && most <= reference) {
      ranged_ += n;
      continue;
    }
    const RangeScan scan = ScanRange(x.data() + begin, n, scale, overflow_threshold, reference);
    ranged_ += scan.finite;
    saturated_ += scan.saturated;
    exceeded_ += scan.exceeded;
  }
}

void ErrorMetrics::Merge(const ErrorMetrics& other) {
  count_ += other.count_;
  non_finite_ += other.non_finite_;
  zero_ += other.zero_;
  zeroed_ += other.zeroed_;
  saturated_ += other.saturated_;
  exceeded_ += other.exceeded_;
  ranged_ += other.ranged_;
  signal_ += other.signal_;
  noise_ += other.noise_;
  product_ += other.product_;
  quantized_ += other.quantized_;
  max_abs_error_ = std::max(max_abs_error_, other.max_abs_error_);
  amax_ = std::max(amax_, other.amax_);
}

double ErrorMetrics::SqnrDb() const {
  if (!(signal_ > 0)) return std::numeric_limits<double>::quiet_NaN();
  if (noise_ == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(signal_ / noise_);
}

double ErrorMetrics::Cosine() const {
  const double norms = std::sqrt(signal_) * std::sqrt(quantized_);
  return norms > 0 ? product_ / norms : std::numeric_limits<double>::quiet_NaN();
}

double ErrorMetrics::Gain() const {
  return signal_ > 0 ? product_ / signal_ : std::numeric_limits<double>::quiet_NaN();
}

double ErrorMetrics::ZeroRate() const { return Ratio(zero_, count_); }
double ErrorMetrics::ZeroedRate() const { return Ratio(zeroed_, count_); }
double ErrorMetrics::SaturationRate() const { return Ratio(saturated_, ranged_); }
double ErrorMetrics::ExceededRate() const { return Ratio(exceeded_, ranged_); }

}  // namespace hif8
