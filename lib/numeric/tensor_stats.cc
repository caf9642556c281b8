#include "lib/numeric/tensor_stats.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "lib/core/error.h"
#include "lib/core/parallel.h"
#include "lib/numeric/magnitude_histogram.h"
#include "lib/numeric/stats_bins.h"

namespace hif8 {
namespace {

constexpr uint8_t kVersion = 1;
constexpr size_t kConvert = 2048;  // values converted to fp32 at a time
constexpr int kMinExponent = -127;
// Values that are worth a task of their own.
constexpr size_t kShare = size_t{1} << 14;
constexpr size_t kSharesPerThread = 2;

MagnitudeBin ToMagnitudes(const StatsBin& bin) {
  const auto n = static_cast<double>(bin.count);
  const uint32_t next = bin.key + (bin.octave ? 1u << kBinFractionBits : 1u);
  MagnitudeBin out;
  out.count = bin.count;
  out.low = BinEdge(bin.key);
  out.width = BinEdge(next) - out.low;
  // Within a bin a value is linear in its lower bits.
  const double low_mean = static_cast<double>(bin.low_sum) / n * 0x1p-16;
  const double part =
      bin.octave ? (static_cast<double>(bin.high_sum) / n + low_mean) * 0x1p-7 : low_mean;
  out.mean = out.low + out.width * part;
  // The mean of n uniform values is within 4 standard errors of the middle; a density that changes
  // over the bin as that of a normal distribution at 6 sigma does moves it by 3 % of the width. A
  // mean farther out tells of values at one place (data of few bits, a clipped tail).
  const double off = std::abs(out.mean - (out.low + out.width / 2));
  const bool uniform = bin.count > 1 && off <= out.width * (0.03 + 4 / std::sqrt(12 * n));
  out.spread = uniform ? out.width / 2 - off : 0;
  return out;
}

template <typename T>
void Put(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
bool Take(std::string_view* bytes, T* value) {
  if (bytes->size() < sizeof(T)) return false;
  std::memcpy(value, bytes->data(), sizeof(T));
  bytes->remove_prefix(sizeof(T));
  return true;
}

}  // namespace

uint64_t NearestRank(double percent, uint64_t count) {
  // A percent such as 99.9 is no binary fraction: what a product exceeds a whole number by within
  // rounding error must not raise the rank.
  const double exact = percent / 100 * static_cast<double>(count);
  const double rank = std::ceil(exact - exact * 1e-15);
  if (!(rank > 1)) return 1;
  return std::min(count, static_cast<uint64_t>(rank));
}

// Bins as bytes: what many records hold for as long as a pass runs is smaller by a factor of five
// that way, so that memory hardly depends on how much has been seen.
class PackedBins {
 public:
  StatsBins Unpack() const {
    StatsBins bins;
    if (!bytes_.empty()) StatsBins::Read(bytes_, amax_bits_, &bins);
    return bins;
  }
  // Bins that are collapsed for `amax_bits`.
  void Pack(const StatsBins& bins, uint32_t amax_bits) {
    bytes_.clear();
    bins.AppendTo(amax_bits, &bytes_);
    bytes_.shrink_to_fit();
    amax_bits_ = amax_bits;
  }

 private:
  std::string bytes_;
  uint32_t amax_bits_ = 0;
};

struct TensorStats::Impl {
  MagnitudeHistogram dense;  // values since the last Flush()
  size_t dense_count = 0;
  uint64_t dense_zeros = 0;
  PackedBins packed;  // all values before
  uint64_t count = 0, zeros = 0, nans = 0, infs = 0;
  uint32_t amax_bits = 0;
  std::vector<float> trace;

  static RunSummary AddTo(MagnitudeHistogram* bins, DType dtype, const std::byte* data, size_t n) {
    if (dtype == DType::kF32 && reinterpret_cast<uintptr_t>(data) % alignof(float) == 0) {
      return bins->Add({reinterpret_cast<const float*>(data), n});
    }
    RunSummary all;
    std::array<float, kConvert> buffer;
    for (size_t begin = 0; begin < n; begin += kConvert) {
      const size_t size = std::min(kConvert, n - begin);
      ConvertToFloat(dtype, data + begin * DTypeSize(dtype), size, buffer.data());
      all.Merge(bins->Add(std::span(buffer).first(size)));
    }
    return all;
  }

  // Counts values that there is room for, several threads their share each: bins are integers, so
  // that neither the shares nor their order matter.
  RunSummary AddShared(DType dtype, const std::byte* data, size_t n) {
    const size_t shares = std::min(n / kShare, kSharesPerThread * static_cast<size_t>(Threads()));
    if (shares <= 1 || Threads() == 1) return AddTo(&dense, dtype, data, n);
    RunSummary all;
    std::mutex merging;
    ParallelFor(shares, [&](size_t i) {
      thread_local MagnitudeHistogram bins;
      const size_t begin = n * i / shares;
      const size_t end = n * (i + 1) / shares;
      const RunSummary part = AddTo(&bins, dtype, data + begin * DTypeSize(dtype), end - begin);
      const std::lock_guard lock(merging);
      dense.Take(&bins, part);
      all.Merge(part);
    });
    return all;
  }

  // Returns the trace's entry.
  float AddSample(DType dtype, const std::byte* data, size_t n) {
    RunSummary sample;
    for (size_t begin = 0; begin < n;) {
      if (dense_count == MagnitudeHistogram::kCapacity) Flush();
      const size_t size = std::min(n - begin, MagnitudeHistogram::kCapacity - dense_count);
      const RunSummary part = AddShared(dtype, data + begin * DTypeSize(dtype), size);
      dense_count += size;
      dense_zeros += part.zeros;
      amax_bits = std::max(amax_bits, part.amax_bits);
      sample.Merge(part);
      begin += size;
    }
    count += n - sample.nans - sample.infs;
    zeros += sample.zeros;
    nans += sample.nans;
    infs += sample.infs;
    if (sample.nans + sample.infs > 0) return std::numeric_limits<float>::quiet_NaN();
    return std::bit_cast<float>(sample.amax_bits);
  }

  // All bins, whether dense or packed.
  StatsBins Bins() const {
    const StatsBins recent = StatsBins::FromHistogram(dense, dense_zeros, amax_bits);
    return StatsBins::Merge(packed.Unpack(), recent, amax_bits);
  }

  void Flush() {
    packed.Pack(Bins(), amax_bits);
    if (dense_count > 0) dense.Clear(0, kFiniteBins);
    dense_count = 0;
    dense_zeros = 0;
  }
};

TensorStats::TensorStats() : impl_(std::make_unique<Impl>()) {}
TensorStats::~TensorStats() = default;
TensorStats::TensorStats(TensorStats&&) noexcept = default;
TensorStats& TensorStats::operator=(TensorStats&&) noexcept = default;

void TensorStats::Add(const TensorView& tensor, size_t samples) {
  const size_t n = tensor.size();
  if (n == 0 || samples == 0) return;
  const bool divides = n % samples == 0;
  const size_t parts = divides ? samples : 1;
  const size_t size = n / parts;
  for (size_t i = 0; i < parts; ++i) {
    const float amax =
        impl_->AddSample(tensor.dtype, tensor.data + i * size * DTypeSize(tensor.dtype), size);
    impl_->trace.insert(impl_->trace.end(), divides ? 1 : samples, amax);
  }
}

void TensorStats::Compact() {
  if (!impl_->dense.allocated()) return;
  impl_->Flush();
  impl_->dense.Release();
}

void TensorStats::Merge(const TensorStats& later) {
  const Impl& other = *later.impl_;
  Impl& mine = *impl_;
  const uint32_t amax_bits = std::max(mine.amax_bits, other.amax_bits);
  mine.packed.Pack(StatsBins::Merge(mine.packed.Unpack(), other.Bins(), amax_bits), amax_bits);
  mine.amax_bits = amax_bits;
  mine.count += other.count;
  mine.zeros += other.zeros;
  mine.nans += other.nans;
  mine.infs += other.infs;
  // By index: the other record may be this one.
  const size_t entries = other.trace.size();
  mine.trace.reserve(mine.trace.size() + entries);
  for (size_t i = 0; i < entries; ++i) mine.trace.push_back(other.trace[i]);
}

uint64_t TensorStats::count() const { return impl_->count; }
uint64_t TensorStats::zeros() const { return impl_->zeros; }
uint64_t TensorStats::nan_count() const { return impl_->nans; }
uint64_t TensorStats::inf_count() const { return impl_->infs; }
uint64_t TensorStats::samples() const { return impl_->trace.size(); }
float TensorStats::amax() const { return std::bit_cast<float>(impl_->amax_bits); }
std::span<const float> TensorStats::trace() const { return impl_->trace; }

void TensorStats::TakeTrace(std::vector<float>* out) {
  out->insert(out->end(), impl_->trace.begin(), impl_->trace.end());
  impl_->trace.clear();
}

void TensorStats::AppendTrace(std::span<const float> amaxes) {
  impl_->trace.insert(impl_->trace.end(), amaxes.begin(), amaxes.end());
}

std::vector<MagnitudeBin> TensorStats::Bins() const {
  const StatsBins all = impl_->Bins();
  std::vector<MagnitudeBin> bins;
  bins.reserve(all.bins().size());
  for (const StatsBin& bin : all.bins()) bins.push_back(ToMagnitudes(bin));
  return bins;
}

float TensorStats::Percentile(double percent) const {
  if (impl_->count == 0) return 0;
  const uint64_t rank = NearestRank(percent, impl_->count);
  if (rank == impl_->count) return amax();
  uint64_t below = impl_->zeros;
  if (rank <= below) return 0;
  for (const MagnitudeBin& bin : Bins()) {
    if (rank > below + bin.count) {
      below += bin.count;
      continue;
    }
    const double position =
        (static_cast<double>(rank - below) - 0.5) / static_cast<double>(bin.count);  // in (0, 1)
    return std::min(amax(), static_cast<float>(bin.mean + bin.spread * (2 * position - 1)));
  }
  return amax();
}

double TensorStats::CountAbove(double threshold) const {
  if (!(threshold < amax())) return 0;
  if (threshold < 0) return static_cast<double>(impl_->count);
  double above = 0;
  for (const MagnitudeBin& bin : Bins()) {
    const auto n = static_cast<double>(bin.count);
    if (bin.spread == 0) {
      above += bin.mean > threshold ? n : 0;
    } else {
      above += n * std::clamp((bin.mean + bin.spread - threshold) / (2 * bin.spread), 0.0, 1.0);
    }
  }
  return above;
}

std::vector<ExponentCount> TensorStats::Exponents() const {
  std::vector<ExponentCount> exponents;
  const StatsBins all = impl_->Bins();
  for (const StatsBin& bin : all.bins()) {
    const int exponent = static_cast<int>(ExponentOfKey(bin.key)) + kMinExponent;
    if (exponents.empty() || exponents.back().exponent != exponent) {
      exponents.push_back({exponent, 0});
    }
    exponents.back().count += bin.count;
  }
  return exponents;
}

// Version, counters, trace, bins; little-endian.
std::string TensorStats::Serialize() const {
  const Impl& record = *impl_;
  std::string bytes;
  Put(kVersion, &bytes);
  Put(record.zeros, &bytes);
  Put(record.nans, &bytes);
  Put(record.infs, &bytes);
  Put(record.amax_bits, &bytes);
  Put<uint64_t>(record.trace.size(), &bytes);
  for (const float amax : record.trace) Put(amax, &bytes);
  record.Bins().AppendTo(record.amax_bits, &bytes);
  return bytes;
}

TensorStats TensorStats::Parse(std::string_view bytes, const std::string& where) {
  const auto fail = [&](const std::string& what) {
    return ModelError("damaged statistics record: " + what, "gather the statistics again", where);
  };
  uint8_t version = 0;
  if (!Take(&bytes, &version)) throw fail("it is empty");
  if (version != kVersion) {
    throw ModelError("statistics record of version " + std::to_string(version) + ", expected " +
                         std::to_string(kVersion),
                     "gather the statistics again with this version of the program", where);
  }
  TensorStats stats;
  Impl& record = *stats.impl_;
  uint64_t entries = 0;
  if (!Take(&bytes, &record.zeros) || !Take(&bytes, &record.nans) || !Take(&bytes, &record.infs) ||
      !Take(&bytes, &record.amax_bits) || !Take(&bytes, &entries)) {
    throw fail("it ends within its counters");
  }
  constexpr uint64_t kMost = uint64_t{1} << 44;
  if (record.zeros > kMost || record.nans > kMost || record.infs > kMost) {
    throw fail("a counter exceeds 2^44");
  }
  if (record.amax_bits >= std::bit_cast<uint32_t>(std::numeric_limits<float>::infinity())) {
    throw fail("its largest magnitude is not finite");
  }
  if (entries > bytes.size() / sizeof(float)) throw fail("it ends within its trace");
  record.trace.resize(entries);
  for (float& amax : record.trace) {
    Take(&bytes, &amax);
    if (!std::isnan(amax) && !(amax >= 0 && amax <= stats.amax())) {
      throw fail("a sample's largest magnitude exceeds the record's");
    }
  }
  StatsBins bins;
  if (!StatsBins::Read(bytes, record.amax_bits, &bins)) {
    throw fail("its bins are truncated or contradict its counters");
  }
  record.count = record.zeros;
  for (const StatsBin& bin : bins.bins()) record.count += bin.count;
  record.packed.Pack(bins, record.amax_bits);
  return stats;
}

}  // namespace hif8
