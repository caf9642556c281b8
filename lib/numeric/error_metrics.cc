#include "lib/numeric/error_metrics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "lib/core/parallel.h"

namespace hif8 {
namespace {

constexpr size_t kPiece = 4096;                    // values summed before they meet the total
constexpr size_t kLanes = 8;                       // independent partial sums within a piece
constexpr size_t kParallel = size_t{64} * kPiece;  // run length from which threads are worth it
constexpr uint32_t kInfinityBits = 0x7f800000u;

bool AllFinite(const float* x, size_t n) {
  uint32_t non_finite = 0;
  for (size_t i = 0; i < n; ++i) {
    non_finite |= (std::bit_cast<uint32_t>(x[i]) & kInfinityBits) == kInfinityBits ? 1u : 0u;
  }
  return non_finite == 0;
}

// Sums of one piece. Lanes are filled in a fixed pattern and added in a fixed order, so that the
// result is the same whatever the compiler makes of the loop.
struct Sums {
  std::array<double, kLanes> signal{}, noise{}, product{}, quantized{}, error{}, amax{};
  uint32_t zero = 0, zeroed = 0;

  void Add(const float* x, const float* y, size_t n, size_t lane) {
    for (size_t j = 0; j < n; ++j) {
      const size_t l = lane + j;
      const double a = x[j];
      const double b = y[j];
      const double d = a - b;
      signal[l] += a * a;
      noise[l] += d * d;
      product[l] += a * b;
      quantized[l] += b * b;
      error[l] = std::max(error[l], std::abs(d));
      amax[l] = std::max(amax[l], std::abs(a));
      zero += y[j] == 0 ? 1u : 0u;
      zeroed += y[j] == 0 && x[j] != 0 ? 1u : 0u;
    }
  }
};

template <typename T>
T Total(const std::array<T, kLanes>& lanes) {
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
  Sums sums;
  uint64_t added = n;
  if (AllFinite(x.data(), n) && AllFinite(y.data(), n)) {
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) sums.Add(&x[i], &y[i], kLanes, 0);
    sums.Add(x.data() + i, y.data() + i, n - i, 0);
  } else {
    for (size_t i = 0; i < n; ++i) {
      if (std::isfinite(x[i]) && std::isfinite(y[i])) {
        sums.Add(&x[i], &y[i], 1, i % kLanes);
      } else {
        --added;
      }
    }
  }
  count_ += added;
  non_finite_ += n - added;
  zero_ += sums.zero;
  zeroed_ += sums.zeroed;
  signal_ += Total(sums.signal);
  noise_ += Total(sums.noise);
  product_ += Total(sums.product);
  quantized_ += Total(sums.quantized);
  max_abs_error_ = std::max(max_abs_error_, *std::ranges::max_element(sums.error));
  amax_ = std::max(amax_, *std::ranges::max_element(sums.amax));
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
    const float* v = x.data() + begin;
    uint32_t saturated = 0;
    uint32_t exceeded = 0;
    uint32_t finite = 0;
    for (size_t i = 0; i < n; ++i) {
      const float magnitude = std::abs(v[i]);
      // Comparisons with NaN are false; infinities are left out like in Add().
      const bool counts = magnitude <= std::numeric_limits<float>::max();
      finite += counts ? 1u : 0u;
      saturated += counts && magnitude / scale >= overflow_threshold ? 1u : 0u;
      exceeded += counts && magnitude > reference ? 1u : 0u;
    }
    ranged_ += finite;
    saturated_ += saturated;
    exceeded_ += exceeded;
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

double ErrorMetrics::ZeroRate() const { return Ratio(zero_, count_); }
double ErrorMetrics::ZeroedRate() const { return Ratio(zeroed_, count_); }
double ErrorMetrics::SaturationRate() const { return Ratio(saturated_, ranged_); }
double ErrorMetrics::ExceededRate() const { return Ratio(exceeded_, ranged_); }

}  // namespace hif8
