// A statistics file. The input is what stands between header and checksum, or a whole file where it
// begins as one.
#include <cstring>

#include "lib/core/hash.h"
#include "lib/quant/stats_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/readers.h"

namespace {

constexpr std::string_view kMagic = "hif8stat";

// lib/quant/stats_file.cc describes the layout.
std::string Wrap(std::string_view content) {
  const uint32_t version = 1;
  const uint64_t size = kMagic.size() + sizeof(version) + sizeof(size) + content.size() + 32;
  std::string bytes(kMagic);
  bytes.append(reinterpret_cast<const char*>(&version), sizeof(version));
  bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
  bytes.append(content);
  hif8::Hasher hasher;
  hasher.Update(bytes);
  return bytes + hasher.Hex();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hif8;
  const std::string_view input = AsText(data, size);
  const std::string bytes = input.starts_with(kMagic) ? std::string(input) : Wrap(input);
  RunFuzzed([&] {
    StatsFile stats = ParseStats(bytes, "x.stats");
    const std::string written = SerializeStats(stats);
    StatsFile again = ParseStats(written, "again");
    Require(SerializeStats(again) == written, "statistics are read back as they were written");
    for (const auto& [name, record] : stats.records) UseStats(record);
    stats.Merge(std::move(again), "again");
    for (const auto& [name, record] : stats.records) UseStats(record);
    ParseStats(SerializeStats(stats), "merged");
  });
  return 0;
}
