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
  }
  if (threshold.empty()) return;
  step_sum = moment_sum = {0};
  for (size_t i = 0; i < threshold.size(); ++i) {
    step_sum.push_back(step_sum.back() + step[i]);
    moment_sum.push_back(moment_sum.back() + step[i] * threshold[i]);
    const auto extends = [&](const Chain& chain) {
      const auto length = static_cast<int>(chain.length);
      return std::ldexp(chain.threshold, length) == threshold[i] &&
             std::ldexp(chain.step, length) == step[i];
    };
    const auto chain = std::find_if(chains.begin(), chains.end(), extends);
    if (chain != chains.end()) {
      ++chain->length;
    } else {
      chains.push_back({threshold[i], step[i], 1});
    }
  }
  if (2 * chains.size() > threshold.size()) chains.clear();
}

// One octave of bins at most, from `bin` - 1 down to `end`. Nothing branches on what a bin holds:
// among few values, empty bins come at random. Sums within the octave are integers, which are
// summed faster than they are rounded.
void TailSums::AddOctave(MagnitudeHistogram* histogram, uint32_t bin, uint32_t end, Tail* tail) {
  OctaveBins bins;
  bins.size = bin - end;
  bins.width = BinEdge(end + 1) - BinEdge(end);
  bins.top_low = static_cast<int64_t>(BinEdge(bin - 1) / bins.width);
  int64_t low = bins.top_low;
  int64_t counts = 0;
  int64_t sums = 0;
  int64_t energy = 0;  // in (width / 2)^2 / 2^16
  int64_t inside = 0;
  for (size_t i = 0; i < bins.size; ++i, --low) {
    const MagnitudeHistogram::Bin taken = histogram->Take(--bin);
    const auto n = static_cast<int64_t>(taken.count);
    const auto places = static_cast<int64_t>(taken.low_sum);
    const int64_t sum = (n * low << kBinLowBits) + places;
    counts += n;
    sums += sum;
    // n * mean^2, to n * (width / 2)^2
    energy += (2 * low + 1) * (4 * sum - (n * (2 * low + 1) << kBinLowBits));
    inside |= places;
    bins.count[i] = n;
    bins.places[i] = places;
    bins.counts[i] = counts;
    bins.sums[i] = sums;
  }
  // What fills the last vector.
  for (size_t i = bins.size; i < bins.size + 8; ++i) {
    bins.count[i] = bins.places[i] = bins.counts[i] = bins.sums[i] = 0;
  }
  if (segments_.size() < size_ + bins.size + 8) {
    segments_.resize(size_ + OctaveBins::kMost);
    bounds_.resize(segments_.size());
  }
  MakeTailSegments(bins, tail, segments_.data() + size_, bounds_.data() + size_);
  size_ += bins.size;
  tail->energy += static_cast<double>(energy) * (bins.width * bins.width * 0x1p-18);
  tail->edge = BinEdge(end);
  all_at_edges_ = all_at_edges_ && inside == 0;
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
  size_ = 0;
  all_at_edges_ = true;
  Tail tail;
  tail.edge = BinEdge(top_ + 1);
  const auto all = static_cast<double>(count - summary.nans - summary.infs - summary.zeros);
  const uint32_t least = summary.least_bits >> shift_;
  const uint32_t bottom = std::max(Bottom(top_), least);
  uint32_t bin = top_ + 1;
  while (bin > bottom) {
    const double rest = (all - tail.count) * tail.edge * tail.edge;
    if (bin <= top_ && rest < kNegligible * tail.energy) break;
    const uint32_t end = std::max(bottom, (bin - 1) / kOctave * kOctave);
    AddOctave(histogram, bin, end, &tail);
    bin = end;
  }
  bottom_ = tail.edge;
  segments_[0] = TailSegment::Curve(low, end_, h_low, end_ > low ? -h_low / (end_ - low) : 0, 0);
  bounds_[0] = n > 1 ? n * (end_ - low) / 4 : 0;
  histogram->Clear(std::min(least, bin), bin);
  count_ = tail.count;
  sum_ = tail.sum;
  energy_ = tail.energy;
  chained_ = bin >= kOctaveSegments;  // fp32's subnormals have no octaves
  if (!chained_) return;
  if (chains_.size() < size_ + kOctaveSegments) chains_.resize(size_ + kOctaveSegments);
  // Below all segments every value counts whole: H(t) = sum - count t.
  ChainTailSegments(segments_.data(), size_, {2 * sum_, -4.0 / 3 * count_, 0}, chains_.data());
}

template <typename F>
double TailSums::SumOverThresholds(const DecisionSteps& format, double scale, size_t* first,
                                   const F& value) const {
  const auto begin = format.threshold.begin();
  const auto low = std::lower_bound(begin, format.threshold.end(), bottom_ / scale);
  const auto high = std::lower_bound(low, format.threshold.end(), end_ / scale);
  *first = static_cast<size_t>(low - begin);
  const auto end = static_cast<size_t>(high - begin);
  const size_t last = size_ - 1;
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

double TailSums::GainOfChains(const DecisionSteps& format, double scale) const {
  constexpr int kExponentShift = 52;
  const auto bits_of = [](double x) { return std::bit_cast<int64_t>(x); };
  // x * 2^n, for normal x that stay so.
  const auto shifted = [&](double x, int64_t n) {
    return std::bit_cast<double>(bits_of(x) + (n << kExponentShift));
  };
  constexpr int kSegmentShift = kExponentShift - kBinFractionBits;
  const int64_t top = bits_of(end_) >> kSegmentShift;
  const auto lowest = static_cast<int64_t>(size_);
  constexpr auto kOctave = static_cast<int64_t>(kOctaveSegments);
  const auto p = [&](int64_t at, double t) {
    return chains_[static_cast<size_t>(std::min(at, lowest))].At(t);
  };
  double upper = 0;
  double lower = 0;
  for (const DecisionSteps::Chain& chain : format.chains) {
    const double t = scale * chain.threshold;
    if (t >= end_) break;
    const int64_t at = top - (bits_of(t) >> kSegmentShift);
    // The last threshold that any value is above.
    const int64_t below_end = (bits_of(end_) - 1 - bits_of(t)) >> kExponentShift;
    const int64_t last = std::min(chain.length - 1, below_end);
    upper += shifted(chain.step, last) * p(at - last * kOctave, shifted(t, last));
    lower += chain.step * p(at + kOctave, t / 2);
  }
  return upper - lower / 2;
}

double TailSums::SquaredError(const DecisionSteps& format, double scale) const {
  if (chained_ && !format.chains.empty()) {
    return energy_ - 2 * scale * GainOfChains(format, scale);
  }
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
  members_.assign(size_ + 1, {});
  energy_ = 0;  // exactly now
  for (const float v : values) {
    energy_ += static_cast<double>(v) * v;
    const size_t at = segment_of(std::abs(v));
    if (at < size_) ++members_[at + 1].begin;
  }
  for (size_t at = 1; at < members_.size(); ++at) members_[at].begin += members_[at - 1].begin;
  grouped_.resize(members_.back().begin);
  for (const float v : values) {
    const size_t at = segment_of(std::abs(v));
    if (at < size_) grouped_[members_[at].begin++] = std::abs(v);
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
    const size_t at = std::min(Index(t), size_);
    double h = members_[at].sum - members_[at].count * t;
    const size_t end = at < size_ ? members_[at + 1].begin : members_[at].begin;
    for (size_t i = members_[at].begin; i < end; ++i) h += std::max(0.0, grouped_[i] - t);
    return h;
  });
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
  const Above& tail = tails_[std::min<size_t>(top_ - key, tails_.size() - 1)];
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
