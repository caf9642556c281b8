#include "lib/numeric/stats_bins.h"

#include <algorithm>
#include <bit>

namespace hif8 {
namespace {

constexpr uint64_t kMaxCount = uint64_t{1} << 44;
constexpr uint64_t kLowMost = (1u << kBinLowBits) - 1;
constexpr uint64_t kHighMost = (1u << kBinFractionBits) - 1;
constexpr int kMaxLength = 45;  // of a count, in bits
constexpr int kMaxGamma = 32;   // longest gamma code's bits after the first

class BitWriter {
 public:
  explicit BitWriter(std::string* bytes) : bytes_(bytes) {}
  void Put(uint64_t value, int bits) {
    for (int i = 0; i < bits; ++i) {
      if (used_ == 0) bytes_->push_back('\0');
      if ((value >> i & 1) != 0) {
        bytes_->back() =
            static_cast<char>(static_cast<unsigned char>(bytes_->back()) | 1u << used_);
      }
      used_ = (used_ + 1) % 8;
    }
  }

 private:
  std::string* bytes_;
  int used_ = 0;
};

class BitReader {
 public:
  explicit BitReader(std::string_view bytes) : bytes_(bytes) {}
  // False past the end.
  bool Get(int bits, uint64_t* value) {
    *value = 0;
    if (position_ + static_cast<size_t>(bits) > bytes_.size() * 8) return false;
    for (int i = 0; i < bits; ++i, ++position_) {
      const auto byte = static_cast<unsigned char>(bytes_[position_ / 8]);
      *value |= static_cast<uint64_t>(byte >> (position_ % 8) & 1) << i;
    }
    return true;
  }
  // Whether only zero bits are left, fewer than a byte of them.
  bool AtEnd() {
    const size_t left = bytes_.size() * 8 - position_;
    uint64_t rest = 0;
    return left < 8 && Get(static_cast<int>(left), &rest) && rest == 0;
  }

 private:
  std::string_view bytes_;
  size_t position_ = 0;
};

// Elias' gamma code of a value >= 1: as many zeros as it has bits after the first, then the value,
// its leading one first.
void PutGamma(uint64_t value, BitWriter* out) {
  const int rest = std::bit_width(value) - 1;
  out->Put(0, rest);
  out->Put(1, 1);
  out->Put(value, rest);
}

bool GetGamma(BitReader* in, uint64_t* value) {
  int rest = 0;
  for (uint64_t bit = 0;; ++rest) {
    if (!in->Get(1, &bit)) return false;
    if (bit != 0) break;
  }
  if (rest > kMaxGamma || !in->Get(rest, value)) return false;
  *value |= uint64_t{1} << rest;
  return true;
}

// Bits that hold any sum of `count` terms up to `most`: nothing has to be written about the length.
int SumBits(uint64_t count, uint64_t most) { return std::bit_width(count * most); }

// Possible keys in order: one per collapsed octave, then all fine ones.
class KeyOrder {
 public:
  explicit KeyOrder(uint32_t amax_bits) {
    while (IsCollapsed(octaves_, amax_bits)) ++octaves_;
  }
  uint64_t Rank(uint32_t key) const {
    const uint32_t fine = octaves_ << kBinFractionBits;
    return key < fine ? key >> kBinFractionBits : octaves_ + (key - fine);
  }
  uint64_t Key(uint64_t rank) const {
    if (rank < octaves_) return rank << kBinFractionBits;
    return (uint64_t{octaves_} << kBinFractionBits) + (rank - octaves_);
  }

 private:
  uint32_t octaves_ = 0;
};

uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
int64_t UnZigZag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

}  // namespace

void StatsBins::Append(StatsBin bin, uint32_t amax_bits) {
  const uint32_t exponent = ExponentOfKey(bin.key);
  if (!bin.octave && IsCollapsed(exponent, amax_bits)) {
    bin.octave = true;
    bin.high_sum = bin.count * (bin.key & kHighMost);
    bin.key = exponent << kBinFractionBits;
  }
  if (bins_.empty() || bins_.back().key != bin.key) {
    bins_.push_back(bin);
    return;
  }
  StatsBin& last = bins_.back();
  last.count += bin.count;
  last.low_sum += bin.low_sum;
  last.high_sum += bin.high_sum;
}

StatsBins StatsBins::Merge(const StatsBins& a, const StatsBins& b, uint32_t amax_bits) {
  // Collapsing moves a key down to its octave's first, so that rising keys stay rising; an octave
  // that only one list has collapsed yet is collapsed for the common amax, which is no smaller.
  StatsBins merged;
  merged.bins_.reserve(std::max(a.bins_.size(), b.bins_.size()));
  auto i = a.bins_.begin();
  auto j = b.bins_.begin();
  while (i != a.bins_.end() || j != b.bins_.end()) {
    const bool first = j == b.bins_.end() || (i != a.bins_.end() && i->key <= j->key);
    merged.Append(first ? *i++ : *j++, amax_bits);
  }
  return merged;
}

StatsBins StatsBins::FromHistogram(const MagnitudeHistogram& histogram, uint64_t zeros,
                                   uint32_t amax_bits) {
  StatsBins bins;
  if (!histogram.allocated()) return bins;
  for (uint32_t key = 0; key < kFiniteBins; ++key) {
    if (histogram.Empty(key)) continue;
    const uint64_t count = histogram.Count(key) - (key == 0 ? zeros : 0);
    if (count > 0) bins.Append({key, false, count, histogram.LowSum(key), 0}, amax_bits);
  }
  return bins;
}

// Per bin, in gamma code: how far its key is beyond the next possible one (1 bit in a run of bins),
// and how the length of its count differs from the previous one's; then the count without its
// leading one, and its sums in as many bits as sums of so many terms can need.
//
// A fine bin takes 1 + 1 + 16 + 2 log2(count) bits, and what changes of length take: with one more
// binary digit every second bin on average 2 bits, and the most that counts chosen to alternate can
// gain, at the same total, is 2 bits more. There are up to 32 * 128 fine bins and 223 octave bins,
// and at a given total the sum of the logarithms is largest when all counts are equal. So 32 KiB
// hold any 10^9 values.
void StatsBins::AppendTo(uint32_t amax_bits, std::string* bytes) const {
  const KeyOrder order(amax_bits);
  BitWriter out(bytes);
  PutGamma(bins_.size() + 1, &out);
  uint64_t next = 0;
  int64_t previous = 1;
  for (const StatsBin& bin : bins_) {
    const uint64_t rank = order.Rank(bin.key);
    const int length = std::bit_width(bin.count);
    PutGamma(rank - next + 1, &out);
    PutGamma(ZigZag(length - previous) + 1, &out);
    out.Put(bin.count, length - 1);
    out.Put(bin.low_sum, SumBits(bin.count, kLowMost));
    if (bin.octave) out.Put(bin.high_sum, SumBits(bin.count, kHighMost));
    next = rank + 1;
    previous = length;
  }
}

bool StatsBins::Read(std::string_view bytes, uint32_t amax_bits, StatsBins* out) {
  const KeyOrder order(amax_bits);
  BitReader in(bytes);
  uint64_t bins = 0;
  if (!GetGamma(&in, &bins) || bins > kFiniteBins) return false;
  uint64_t next = 0;
  uint64_t total = 0;
  int64_t length = 1;
  for (uint64_t i = 1; i < bins; ++i) {
    StatsBin bin;
    uint64_t distance = 0;
    uint64_t change = 0;
    if (!GetGamma(&in, &distance) || !GetGamma(&in, &change)) return false;
    const uint64_t key = order.Key(next + distance - 1);
    length += UnZigZag(change - 1);
    if (key > amax_bits >> kBinLowBits || length < 1 || length > kMaxLength) return false;
    next += distance;
    bin.key = static_cast<uint32_t>(key);
    bin.octave = IsCollapsed(ExponentOfKey(bin.key), amax_bits);
    if (!in.Get(static_cast<int>(length - 1), &bin.count)) return false;
    bin.count |= uint64_t{1} << (length - 1);
    total += bin.count;
    if (total > kMaxCount || !in.Get(SumBits(bin.count, kLowMost), &bin.low_sum)) return false;
    if (bin.octave && !in.Get(SumBits(bin.count, kHighMost), &bin.high_sum)) return false;
    if (bin.low_sum > bin.count * kLowMost || bin.high_sum > bin.count * kHighMost) return false;
    if (key == 0 && bin.high_sum == 0 && bin.low_sum < bin.count) return false;  // zeros among them
    out->bins_.push_back(bin);
  }
  // The largest magnitude lies in the last bin.
  const bool has_amax = !out->bins_.empty() && out->bins_.back().key == amax_bits >> kBinLowBits;
  return in.AtEnd() && (amax_bits == 0 ? out->bins_.empty() : has_amax);
}

}  // namespace hif8
