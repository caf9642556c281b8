#include "calibrators/tail_sums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace hif8 {
namespace {

// Magnitudes so many octaves below amax have no part in the choice of a scale: what becomes of them
// changes the error by less than 2^-60 of a value's energy at amax.
constexpr uint32_t kOctaves = 31;
// Nor have those whose energy all together is below this share of the whole: they are taken as
// rounded to zero, which misjudges their error by no more than their energy.
constexpr double kNegligible = 1e-8;
constexpr int kStatsSegmentBits = 3;  // segments per bin of a record, as a power of two

uint32_t Bottom(uint32_t top_bin) {
  constexpr uint32_t kBins = kOctaves << kBinFractionBits;
  return top_bin > kBins ? top_bin - kBins : 0;
}

// The product of two vectors, summed in four lanes: a fixed order that the compiler may vectorize.
double Dot(const double* a, const double* b, size_t n) {
  constexpr size_t kLanes = 4;
  std::array<double, kLanes> lanes{};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
  }
  for (; i < n; ++i) lanes[i % kLanes] += a[i] * b[i];
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

}  // namespace

DecisionSteps::DecisionSteps(std::span<const float> decode_table) {
  std::vector<double> values = {0};
  for (const float value : decode_table) {
    if (std::isfinite(value) && value > 0) values.push_back(value);
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    threshold.push_back((values[i] + values[i + 1]) / 2);
    step.push_back(values[i + 1] - values[i]);
    fraction.push_back(std::ldexp(threshold.back(), -std::ilogb(threshold.back())));
  }
  if (threshold.empty()) return;
  std::sort(fraction.begin(), fraction.end());
  fraction.erase(std::unique(fraction.begin(), fraction.end()), fraction.end());
  min_exponent = std::ilogb(threshold.front());
  exponents = std::ilogb(threshold.back()) - min_exponent + 1;
  const size_t columns = fraction.size();
  steps.resize(static_cast<size_t>(exponents) * columns);
  step_sum.resize(static_cast<size_t>(exponents) + 1);
  moment_sum.resize(step_sum.size());
  for (size_t i = 0; i < threshold.size(); ++i) {
    const int exponent = std::ilogb(threshold[i]);
    const auto row = static_cast<size_t>(exponent - min_exponent);
    const auto column =
        std::lower_bound(fraction.begin(), fraction.end(), std::ldexp(threshold[i], -exponent)) -
        fraction.begin();
    steps[row * columns + static_cast<size_t>(column)] = step[i];
    step_sum[row + 1] += step[i];
    moment_sum[row + 1] += step[i] * threshold[i];
  }
  for (size_t row = 0; row < static_cast<size_t>(exponents); ++row) {
    step_sum[row + 1] += step_sum[row];
    moment_sum[row + 1] += moment_sum[row];
  }
}

// The chord through both ends of the segment, less what evenly spread values lie below it.
void TailSums::AddCurve(double low, double high, double h_low, double slope, double density,
                        double bound) {
  const double d = density / 2;
  segments_.push_back({h_low - low * slope + d * low * high, slope - d * (low + high), d, bound});
}

void TailSums::AddSegment(double low, double high, double h_low, double h_high, double density,
                          double bound) {
  const double slope = high > low ? (h_high - h_low) / (high - low) : 0;
  AddCurve(low, high, h_low, slope, density, bound);
}

TailSums::TailSums(MagnitudeHistogram* histogram, const RunSummary& summary, uint64_t count) {
  shift_ = kBinLowBits;
  top_ = summary.amax_bits >> shift_;
  end_ = std::bit_cast<float>(summary.amax_bits);
  const uint32_t bottom = Bottom(top_);
  uint64_t left = count - summary.nans - summary.infs - summary.zeros;
  segments_.reserve(size_t{16} << kBinFractionBits);
  double high = BinEdge(top_ + 1);
  double h_high = 0;
  double width = 0;
  double inverse_width = 0;
  uint32_t bin = top_ + 1;
  while (left > 0 && bin > bottom) {
    --bin;
    const double low = BinEdge(bin);
    if (width == 0 || (bin + 1) % (1U << kBinFractionBits) == 0) {  // another octave
      if (static_cast<double>(left) * high * high < kNegligible * energy_) {
        ++bin;
        break;
      }
      width = high - low;
      inverse_width = 1 / width;
    }
    uint64_t in_bin = 0;
    if (!histogram->Empty(bin)) in_bin = histogram->Count(bin) - (bin == 0 ? summary.zeros : 0);
    if (in_bin == 0) {
      segments_.push_back({sum_, -count_, 0, 0});
      h_high = sum_ - count_ * low;
    } else {
      left -= in_bin;
      const auto n = static_cast<double>(in_bin);
      const double place = static_cast<double>(histogram->LowSum(bin)) * 0x1p-16;  // n * [0, 1)
      const double in_sum = n * low + place * width;
      count_ += n;
      sum_ += in_sum;
      energy_ += in_sum * in_sum / n;  // less the spread within the bin
      const double h_low = sum_ - count_ * low;
      // Between the ends H is convex: below the chord by at most a quarter of n * width.
      if (bin == top_) {
        AddSegment(low, end_, h_low, 0, 0, in_bin > 1 ? n * width / 4 : 0);
      } else {
        // Evenly spread, unless all lie at the bin's edge (values of few bits) or their mean is off
        // the middle by more than 4 standard errors.
        const double off = std::abs(place - n / 2);
        const bool even = place > 0 && off * off * 12 < 16 * n + 0.01 * n * n;
        const double slope = (h_high - h_low) * inverse_width;
        AddCurve(low, high, h_low, slope, even ? n * inverse_width : 0,
                 place > 0 ? n * width / 4 : 0);
      }
      h_high = h_low;
    }
    high = low;
  }
  histogram->Clear(bin, top_ + 1);
  if (left + summary.zeros > 0) histogram->Clear(0, bin);
}

TailSums::TailSums(std::span<const MagnitudeBin> bins) {
  const MagnitudeBin& last = bins.back();
  const auto top_bin = std::bit_cast<uint32_t>(static_cast<float>(last.low)) >> kBinLowBits;
  constexpr uint32_t kParts = 1U << kStatsSegmentBits;
  shift_ = kBinLowBits - kStatsSegmentBits;
  top_ = (top_bin << kStatsSegmentBits) + kParts - 1;
  // Below the end of the last segment, as fp32 too.
  end_ = std::min<double>(last.mean + last.spread,
                          std::nextafter(static_cast<float>(last.low + last.width), 0.0F));
  const uint32_t bottom = Bottom(top_bin);
  size_t next = bins.size();
  for (uint32_t bin = top_bin + 1; next > 0 && bin-- > bottom;) {
    const double low = BinEdge(bin);
    const double width = BinEdge(bin + 1) - low;
    double n = 0;
    double mean = low;
    double spread = 0;
    if (bins[next - 1].low == low && bins[next - 1].width == width) {
      --next;
      n = static_cast<double>(bins[next].count);
      mean = bins[next].mean;
      spread = bins[next].spread;
    }
    // H at a point of the bin: all above it, and the part of the bin's own that exceeds t.
    const auto h = [&](double t) {
      const double outside = sum_ - count_ * t;
      if (t <= mean - spread) return outside + n * (mean - t);
      if (t >= mean + spread) return outside;
      return outside + n * (mean + spread - t) * (mean + spread - t) / (4 * spread);
    };
    double high = std::min(low + width, end_);
    double h_high = h(high);
    for (uint32_t part = kParts; part-- > 0;) {
      const double edge = std::min(low + width * part / kParts, end_);
      const double h_edge = h(edge);
      const bool inside = spread > 0 && edge >= mean - spread && high <= mean + spread;
      AddSegment(edge, high, h_edge, h_high, inside ? n / (2 * spread) : 0, 0);
      high = edge;
      h_high = h_edge;
    }
    count_ += n;
    sum_ += n * mean;
    energy_ += n * (mean * mean + spread * spread / 3);
  }
  while (next > 0) {  // octaves far below
    --next;
    energy_ += static_cast<double>(bins[next].count) * bins[next].mean * bins[next].mean;
  }
}

size_t TailSums::Index(double t) const {
  return top_ - (std::bit_cast<uint32_t>(static_cast<float>(t)) >> shift_);
}

double TailSums::H(double t) const {
  if (t >= end_) return 0;
  const size_t at = Index(t);
  // Below all segments every value counts whole.
  if (at >= segments_.size()) return sum_ - count_ * t;
  const Segment& s = segments_[at];
  return s.a + t * (s.c + t * s.d);
}

double TailSums::SquaredError(const DecisionSteps& format, double scale) const {
  double gain = 0;
  const double end = end_ / scale;
  for (size_t i = 0; i < format.threshold.size() && format.threshold[i] < end; ++i) {
    gain += format.step[i] * H(scale * format.threshold[i]);
  }
  return energy_ - 2 * scale * gain;
}

double TailSums::Uncertainty(const DecisionSteps& format, double scale) const {
  double sum = 0;
  const double end = end_ / scale;
  for (size_t i = 0; i < format.threshold.size() && format.threshold[i] < end; ++i) {
    const size_t at = Index(scale * format.threshold[i]);
    if (at < segments_.size()) sum += format.step[i] * segments_[at].bound;
  }
  return 2 * scale * sum + kNegligible * energy_;
}

// h[row][column] = H(scale fraction[column] 2^e), e falling by row from `top`.
void TailSums::LookUp(const DecisionSteps& format, double scale, int top, int octaves,
                      std::vector<double>* h) const {
  const size_t columns = format.fraction.size();
  h->resize(static_cast<size_t>(octaves) * columns);
  // Rows are stored rising, as in the matrix of steps.
  const size_t per_octave = size_t{1} << (23 - shift_);
  for (size_t column = 0; column < columns; ++column) {
    double t = std::ldexp(scale * format.fraction[column], top);
    double* out = h->data() + static_cast<size_t>(octaves - 1) * columns + column;
    int row = 0;
    for (; row < octaves && t >= end_; ++row, t /= 2, out -= columns) *out = 0;
    size_t at = Index(t);  // one octave down is per_octave segments on
    for (; row < octaves && at < segments_.size(); ++row, out -= columns) {
      const Segment& s = segments_[at];
      *out = s.a + t * (s.c + t * s.d);
      at += per_octave;
      t /= 2;
    }
    for (; row < octaves; ++row, t /= 2, out -= columns) *out = H(t);
  }
}

void TailSums::SquaredErrors(const DecisionSteps& format, double scale, int first,
                             std::span<double> errors) const {
  // Look-ups from the octave of amax down to the last segment's; thresholds beyond those are below
  // all values, and sums over them are known beforehand.
  const int top = std::ilogb(end_) - std::ilogb(scale);
  const int octaves = static_cast<int>(segments_.size() >> (23 - shift_)) + 3;
  const int bottom = top - octaves + 1;
  if (std::ilogb(end_) - octaves < -125) {  // fp32's subnormals have no octaves
    for (size_t i = 0; i < errors.size(); ++i) {
      errors[i] = SquaredError(format, std::ldexp(scale, first + static_cast<int>(i)));
    }
    return;
  }
  const size_t columns = format.fraction.size();
  thread_local std::vector<double> h;
  LookUp(format, scale, top, octaves, &h);
  for (size_t i = 0; i < errors.size(); ++i) {
    const int j = first + static_cast<int>(i);
    // Row e of the matrix meets look-ups of exponent e + j.
    const int low = std::clamp(bottom - j - format.min_exponent, 0, format.exponents);
    const int high = std::clamp(top + 1 - j - format.min_exponent, low, format.exponents);
    const int skip = low + format.min_exponent + j - bottom;
    const double scale_j = std::ldexp(scale, j);
    double gain = sum_ * format.step_sum[static_cast<size_t>(low)] -
                  count_ * scale_j * format.moment_sum[static_cast<size_t>(low)];
    if (high > low) {
      gain += Dot(format.steps.data() + static_cast<size_t>(low) * columns,
                  h.data() + static_cast<size_t>(skip) * columns,
                  static_cast<size_t>(high - low) * columns);
    }
    errors[i] = energy_ - 2 * scale_j * gain;
  }
}

}  // namespace hif8
