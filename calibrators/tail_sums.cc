#include "calibrators/tail_sums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "lib/numeric/vector_kernels.h"

namespace hif8 {
namespace {

// Magnitudes so many octaves below amax have no part in the choice of a scale: what becomes of them
// changes the error by less than 2^-60 of a value's energy at amax.
constexpr uint32_t kOctaves = 31;
// Nor have those whose energy all together is below this share of the whole: they are taken as
// rounded to zero, which misjudges their error by no more than their energy.
constexpr double kNegligible = 1e-8;

uint32_t Bottom(uint32_t top_bin) {
  constexpr uint32_t kBins = kOctaves << kBinFractionBits;
  return top_bin > kBins ? top_bin - kBins : 0;
}

// energy - 2 s sum_i step_i H(s t_i), H being 0 from `end` on.
template <typename F>
double ErrorBySteps(const DecisionSteps& format, double scale, double energy, double end,
                    const F& h) {
  double gain = 0;
  end /= scale;
  for (size_t i = 0; i < format.threshold.size() && format.threshold[i] < end; ++i) {
    gain += format.step[i] * h(scale * format.threshold[i]);
  }
  return energy - 2 * scale * gain;
}

uint32_t BinOf(double magnitude) {
  return std::bit_cast<uint32_t>(static_cast<float>(magnitude)) >> kBinLowBits;
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
  row_begin.resize(static_cast<size_t>(exponents) + 1);
  step_sum = moment_sum = {0};
  for (size_t i = 0; i < threshold.size(); ++i) {
    const int exponent = std::ilogb(threshold[i]);
    const auto row = static_cast<size_t>(exponent - min_exponent);
    const auto column =
        std::lower_bound(fraction.begin(), fraction.end(), std::ldexp(threshold[i], -exponent)) -
        fraction.begin();
    steps[row * columns + static_cast<size_t>(column)] = step[i];
    row_begin[row + 1] = i + 1;
    step_sum.push_back(step_sum.back() + step[i]);
    moment_sum.push_back(moment_sum.back() + step[i] * threshold[i]);
  }
  for (size_t row = 1; row < row_begin.size(); ++row) {  // some may have none
    row_begin[row] = std::max(row_begin[row], row_begin[row - 1]);
  }
}

// The sums so far while segments are added.
struct TailSums::Running {
  double count = 0, sum = 0, energy = 0;
  double high = 0, h_high = 0;  // the lower end of the last segment, and H there
  uint64_t inside = 0;          // not 0 where values lie inside bins, not at their edges
};

// One octave of bins at most, from `bin` - 1 down to `end`. Nothing branches on what a bin holds:
// among few values, empty bins come at random.
void TailSums::AddOctave(MagnitudeHistogram* histogram, uint32_t bin, uint32_t end,
                         Running* running) {
  Running r = *running;
  const double width = r.high - BinEdge(bin - 1);
  const double inverse_width = 1 / width;
  const size_t first = segments_.size();
  segments_.resize(first + (bin - end));
  bounds_.resize(segments_.size());
  Segment* segment = segments_.data() + first;
  double* bound = bounds_.data() + first;
  while (bin > end) {
    --bin;
    const double low = r.high - width;  // exactly the bin's edge
    const MagnitudeHistogram::Bin taken = histogram->Take(bin);
    const auto low_bits = static_cast<int64_t>(taken.low_sum);
    const auto n = static_cast<double>(static_cast<int64_t>(taken.count));
    const double place = static_cast<double>(low_bits) * 0x1p-16;  // n times [0, 1)
    const double in_sum = n * low + place * width;
    r.count += n;
    r.sum += in_sum;
    const double middle = low + width / 2;
    r.energy += middle * (2 * in_sum - n * middle);  // n * mean^2, to n * (width / 2)^2
    const double h_low = r.sum - r.count * low;
    // Evenly spread, unless all lie at the bin's edge (values of few bits) or their mean is off the
    // middle by more than 4 standard errors. In any case H is convex: below the chord by at most a
    // quarter of n * width.
    const double off = place - n / 2;
    const bool inside = low_bits > 0;
    r.inside |= static_cast<uint64_t>(low_bits);
    const bool even = inside & (off * off * 12 < 16 * n + 0.01 * n * n);
    *segment++ = Curve(low, r.high, h_low, (r.h_high - h_low) * inverse_width,
                       static_cast<double>(even) * n * inverse_width);
    *bound++ = static_cast<double>(inside) * n * width / 4;
    r.h_high = h_low;
    r.high = low;
  }
  *running = r;
}

void TailSums::Reset(MagnitudeHistogram* histogram, const RunSummary& summary, uint64_t count) {
  constexpr uint32_t kOctave = 1U << kBinFractionBits;
  shift_ = kBinLowBits;
  top_ = summary.amax_bits >> shift_;
  end_ = std::bit_cast<float>(summary.amax_bits);
  histogram->RemoveZeros(summary.zeros);
  // The topmost values lie between the bin's lower edge and amax: one of them, at amax.
  const double low = BinEdge(top_);
  const auto n = static_cast<double>(histogram->Count(top_));
  const double h_low =
      static_cast<double>(histogram->LowSum(top_)) * 0x1p-16 * (BinEdge(top_ + 1) - low);
  segments_.clear();
  bounds_.clear();
  Running running;
  running.high = BinEdge(top_ + 1);
  const auto all = static_cast<double>(count - summary.nans - summary.infs - summary.zeros);
  const uint32_t least = summary.least_bits >> shift_;
  const uint32_t bottom = std::max(Bottom(top_), least);
  uint32_t bin = top_ + 1;
  while (bin > bottom) {
    const double rest = (all - running.count) * running.high * running.high;
    if (bin <= top_ && rest < kNegligible * running.energy) break;
    const uint32_t end = std::max(bottom, (bin - 1) / kOctave * kOctave);
    AddOctave(histogram, bin, end, &running);
    bin = end;
  }
  bottom_ = running.high;
  segments_[0] = Curve(low, end_, h_low, end_ > low ? -h_low / (end_ - low) : 0, 0);
  bounds_[0] = n > 1 ? n * (end_ - low) / 4 : 0;
  histogram->Clear(std::min(least, bin), bin);
  all_at_edges_ = running.inside == 0;
  count_ = running.count;
  sum_ = running.sum;
  energy_ = running.energy;
}

double TailSums::H(double t) const {
  if (t >= end_) return 0;
  const size_t at = Index(t);
  // Below all segments every value counts whole.
  return at < segments_.size() ? segments_[at].At(t) : sum_ - count_ * t;
}

template <typename F>
double TailSums::SumOverThresholds(const DecisionSteps& format, double scale, size_t* first,
                                   const F& value) const {
  const auto begin = format.threshold.begin();
  const auto low = std::lower_bound(begin, format.threshold.end(), bottom_ / scale);
  const auto high = std::lower_bound(low, format.threshold.end(), end_ / scale);
  *first = static_cast<size_t>(low - begin);
  const auto end = static_cast<size_t>(high - begin);
  const size_t last = segments_.size() - 1;
  const auto term = [&](size_t i) {
    const double t = scale * format.threshold[i];
    return format.step[i] * value(t, std::min(Index(t), last));  // the division was rounded
  };
  // Several sums, so that additions do not wait for one another.
  std::array<double, 4> sums{};
  size_t i = *first;
  for (; i + sums.size() <= end; i += sums.size()) {
    for (size_t k = 0; k < sums.size(); ++k) sums[k] += term(i + k);
  }
  for (; i < end; ++i) sums[0] += term(i);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

double TailSums::SquaredError(const DecisionSteps& format, double scale) const {
  size_t first = 0;
  double gain = SumOverThresholds(format, scale, &first,
                                  [&](double t, size_t at) { return segments_[at].At(t); });
  // Below all segments every value counts whole.
  gain += sum_ * format.step_sum[first] - count_ * scale * format.moment_sum[first];
  return energy_ - 2 * scale * gain;
}

double TailSums::Uncertainty(const DecisionSteps& format, double scale) const {
  size_t first = 0;
  const double bound =
      SumOverThresholds(format, scale, &first, [&](double, size_t at) { return bounds_[at]; });
  return kNegligible * energy_ + 2 * scale * bound;
}

void TailSums::Group(std::span<const float> values) {
  const auto segment_of = [&](float magnitude) {
    return top_ - (std::bit_cast<uint32_t>(magnitude) >> shift_);
  };
  members_.assign(segments_.size() + 1, {});
  energy_ = 0;  // exactly now
  for (const float v : values) {
    energy_ += static_cast<double>(v) * v;
    const size_t at = segment_of(std::abs(v));
    if (at < segments_.size()) ++members_[at + 1].begin;
  }
  for (size_t at = 1; at < members_.size(); ++at) members_[at].begin += members_[at - 1].begin;
  grouped_.resize(members_.back().begin);
  for (const float v : values) {
    const size_t at = segment_of(std::abs(v));
    if (at < segments_.size()) grouped_[members_[at].begin++] = std::abs(v);
  }
  // Every begin has moved to its segment's end, which is the next one's begin.
  double sum = 0;
  size_t begin = 0;
  for (Members& segment : members_) {
    const size_t end = segment.begin;
    segment = {begin, static_cast<double>(begin), sum};
    for (size_t i = begin; i < end; ++i) sum += grouped_[i];
    begin = end;
  }
}

double TailSums::ExactError(const DecisionSteps& format, double scale) const {
  return ErrorBySteps(format, scale, energy_, end_, [&](double t) {
    const size_t at = std::min(Index(t), segments_.size());
    double h = members_[at].sum - members_[at].count * t;
    const size_t end = at < segments_.size() ? members_[at + 1].begin : members_[at].begin;
    for (size_t i = members_[at].begin; i < end; ++i) h += std::max(0.0, grouped_[i] - t);
    return h;
  });
}

// h[row][column] = H(scale fraction[column] 2^e), e falling by row from `top`.
void TailSums::LookUp(const DecisionSteps& format, double scale, int top, int octaves,
                      std::vector<double>* h) const {
  const size_t columns = format.fraction.size();
  h->resize(static_cast<size_t>(octaves) * columns);
  // Rows are stored rising, as in the matrix of steps.
  const size_t per_octave = size_t{1} << (23 - shift_);
  const double topmost = std::ldexp(scale, top);
  for (size_t column = 0; column < columns; ++column) {
    double t = topmost * format.fraction[column];
    double* out = h->data() + static_cast<size_t>(octaves - 1) * columns + column;
    int row = 0;
    for (; row < octaves && t >= end_; ++row, t /= 2, out -= columns) *out = 0;
    size_t at = Index(t);  // one octave down is per_octave segments on
    for (; row < octaves && at < segments_.size(); ++row, out -= columns) {
      *out = segments_[at].At(t);
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
    const size_t below = format.row_begin[static_cast<size_t>(low)];
    double gain = sum_ * format.step_sum[below] - count_ * scale_j * format.moment_sum[below];
    if (high > low) {
      gain += DotProduct(format.steps.data() + static_cast<size_t>(low) * columns,
                         h.data() + static_cast<size_t>(skip) * columns,
                         static_cast<size_t>(high - low) * columns);
    }
    errors[i] = energy_ - 2 * scale_j * gain;
  }
}

RecordSums::RecordSums(std::span<const MagnitudeBin> bins) {
  top_ = BinOf(bins.back().low);
  end_ = bins.back().mean + bins.back().spread;
  const uint32_t bottom = Bottom(top_);
  double count = 0;
  double sum = 0;
  for (size_t i = bins.size(); i-- > 0;) {
    const MagnitudeBin& bin = bins[i];
    const auto n = static_cast<double>(bin.count);
    energy_ += n * (bin.mean * bin.mean + bin.spread * bin.spread / 3);
    const uint32_t key = BinOf(bin.low);
    if (key < bottom) continue;
    tails_.resize(top_ - key, {count, sum, 0, 0, 0});  // empty bins in between
    tails_.push_back({count, sum, n, bin.mean, bin.spread});
    count += n;
    sum += n * bin.mean;
  }
  tails_.push_back({count, sum, 0, 0, 0});  // for everything below
}

double RecordSums::H(double t) const {
  // The bin's end may round up to the next one's begin.
  const uint32_t key = std::min(BinOf(t), top_);
  const Tail& tail = tails_[std::min<size_t>(top_ - key, tails_.size() - 1)];
  const double above = tail.sum - tail.count * t;
  const double excess = tail.mean + tail.spread - t;
  if (excess <= 0) return above;
  if (excess >= 2 * tail.spread) return above + tail.in_bin * (tail.mean - t);
  return above + tail.in_bin * excess * excess / (4 * tail.spread);
}

double RecordSums::SquaredError(const DecisionSteps& format, double scale) const {
  return ErrorBySteps(format, scale, energy_, end_, [&](double t) { return H(t); });
}

}  // namespace hif8
