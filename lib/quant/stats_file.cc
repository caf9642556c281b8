#include "lib/quant/stats_file.h"

#include <cstring>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/input_file.h"
#include "lib/core/output_dir.h"

namespace hif8 {
namespace {

// Layout, integers little-endian, strings as length (u64) and bytes:
//   "hif8stat", u32 version, u64 size of the whole file,
//   fingerprint's files and hash, u64 samples, u8 synthetic,
//   u64 number of records, each: name, serialized record,
//   32 hexadecimal digits: hash of all bytes before.
constexpr std::string_view kMagic = "hif8stat";
constexpr uint32_t kVersion = 1;
constexpr size_t kHashSize = 32;
constexpr size_t kHeader = kMagic.size() + sizeof(kVersion) + sizeof(uint64_t);

constexpr const char* kAgain = "gather the statistics again with --stats-out";

template <typename T>
void Put(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}
void PutText(std::string_view text, std::string* bytes) {
  Put<uint64_t>(text.size(), bytes);
  bytes->append(text);
}

std::string HashOf(std::string_view bytes) {
  Hasher hasher;
  hasher.Update(bytes);
  return hasher.Hex();
}

// Reads the values of the layout one after the other.
class Reader {
 public:
  Reader(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  template <typename T>
  T Get() {
    T value;
    std::memcpy(&value, Bytes(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view Text() { return Bytes(Get<uint64_t>()); }
  bool AtEnd() const { return bytes_.empty(); }

 private:
  std::string_view Bytes(uint64_t n) {
    if (n > bytes_.size()) {
      throw ModelError("damaged statistics file: a length points beyond its end", kAgain, where_);
    }
    const std::string_view front = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return front;
  }

  std::string_view bytes_;
  const std::string& where_;
};

// Checks everything that does not depend on the content, and returns the content.
std::string_view Unwrap(std::string_view bytes, const std::string& where) {
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    throw ModelError("expected a statistics file, found something else",
                     "give a file that --stats-out wrote", where);
  }
  if (bytes.size() < kHeader) {
    throw ModelError("truncated statistics file: it ends within its header", kAgain, where);
  }
  uint32_t version = 0;
  std::memcpy(&version, bytes.data() + kMagic.size(), sizeof(version));
  if (version != kVersion) {
    throw ModelError("expected a statistics file of version " + std::to_string(kVersion) +
                         ", found version " + std::to_string(version),
                     "gather the statistics again with this version of the program", where);
  }
  uint64_t size = 0;
  std::memcpy(&size, bytes.data() + kMagic.size() + sizeof(version), sizeof(size));
  if (bytes.size() < size) {
    throw ModelError("truncated statistics file: " + std::to_string(bytes.size()) + " of " +
                         std::to_string(size) + " bytes",
                     kAgain, where);
  }
  const bool plausible = bytes.size() == size && size >= kHeader + kHashSize;
  if (!plausible || HashOf(bytes.substr(0, size - kHashSize)) != bytes.substr(size - kHashSize)) {
    throw ModelError("damaged statistics file: its checksum does not match", kAgain, where);
  }
  return bytes.substr(kHeader, size - kHeader - kHashSize);
}

void CheckModel(const Fingerprint& expected, const Fingerprint& found, const std::string& where) {
  if (found == expected) return;
  throw ModelError("statistics of another model: expected " + expected.files + " (" +
                       expected.hash + "), found " + found.files + " (" + found.hash + ")",
                   "statistics can only be used with the model they were gathered with", where);
}

}  // namespace

void StatsFile::Merge(StatsFile&& later, const std::string& where) {
  CheckModel(model, later.model, where);
  samples += later.samples;
  synthetic = synthetic || later.synthetic;
  for (auto& [name, stats] : later.records) {
    const auto [mine, is_new] = records.try_emplace(name, std::move(stats));
    if (!is_new) mine->second.Merge(stats);
  }
}

std::string SerializeStats(const StatsFile& stats) {
  std::string bytes(kMagic);
  Put(kVersion, &bytes);
  Put<uint64_t>(0, &bytes);  // the size, below
  PutText(stats.model.files, &bytes);
  PutText(stats.model.hash, &bytes);
  Put(stats.samples, &bytes);
  Put<uint8_t>(stats.synthetic ? 1 : 0, &bytes);
  Put<uint64_t>(stats.records.size(), &bytes);
  for (const auto& [name, record] : stats.records) {
    PutText(name, &bytes);
    PutText(record.Serialize(), &bytes);
  }
  const uint64_t size = bytes.size() + kHashSize;
  std::memcpy(bytes.data() + kHeader - sizeof(size), &size, sizeof(size));
  return bytes + HashOf(bytes);
}

StatsFile ParseStats(std::string_view bytes, const std::string& where) {
  Reader in(Unwrap(bytes, where), where);
  StatsFile stats;
  stats.model.files = in.Text();
  stats.model.hash = in.Text();
  stats.samples = in.Get<uint64_t>();
  stats.synthetic = in.Get<uint8_t>() != 0;
  const auto records = in.Get<uint64_t>();
  for (uint64_t i = 0; i < records; ++i) {
    std::string name(in.Text());
    TensorStats record = TensorStats::Parse(in.Text(), where + ": " + name);
    if (!stats.records.emplace(std::move(name), std::move(record)).second) {
      throw ModelError("damaged statistics file: an activation occurs twice", kAgain, where);
    }
  }
  if (!in.AtEnd()) {
    throw ModelError("damaged statistics file: bytes are left over", kAgain, where);
  }
  return stats;
}

void WriteStatsFile(const std::filesystem::path& path, const StatsFile& stats) {
  WriteFileAtomically(path, SerializeStats(stats));
}

StatsFile ReadStatsFiles(std::span<const std::filesystem::path> paths, const Fingerprint& model) {
  StatsFile all;
  all.model = model;
  for (const std::filesystem::path& path : paths) {
    all.Merge(ParseStats(ReadFile(path), path.string()), path.string());
  }
  return all;
}

std::vector<TensorStats> ByActivation(StatsFile&& stats,
                                      const std::vector<Activation>& activations) {
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < activations.size(); ++i) index[activations[i].name] = i;
  std::vector<TensorStats> records(activations.size());
  for (auto& [name, record] : stats.records) {
    const auto at = index.find(name);
    if (at != index.end()) records[at->second] = std::move(record);
  }
  return records;
}

}  // namespace hif8
