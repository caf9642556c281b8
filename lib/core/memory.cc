#include "lib/core/memory.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "lib/core/error.h"

namespace hif8 {
namespace {

std::atomic<uint64_t> limit_setting{0};

constexpr std::string_view kUnits = "KMGT";

uint64_t MachineMemory() {
  const auto pages = static_cast<uint64_t>(std::max<long>(::sysconf(_SC_PHYS_PAGES), 0));
  uint64_t bytes = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  for (const char* file :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    uint64_t group = 0;
    if (std::ifstream(file) >> group && group > 0) bytes = std::min(bytes, group);
  }
  return bytes;
}

}  // namespace

void SetMemoryLimit(uint64_t bytes) {
  limit_setting = bytes;
#ifdef __GLIBC__
  // Freed blocks of this size and more go back to the system at once. By default the C library
  // keeps ever larger ones for itself, which is faster.
  constexpr int kReturned = 1 << 18;
  if (bytes > 0) ::mallopt(M_MMAP_THRESHOLD, kReturned);
#endif
}

uint64_t MemoryLimit() {
  static const uint64_t usual = MachineMemory() / 2;
  const uint64_t limit = limit_setting;
  return limit > 0 ? limit : usual;
}

void RequireMemory(uint64_t bytes, uint64_t limit, const std::string& what,
                   const std::string& why) {
  const uint64_t needed = bytes + kProgramMemory;
  if (needed <= limit) return;
  const uint64_t mebibytes = (needed >> 20) + 1;
  throw EnvironmentError(what + ": expected to fit into " + SizeText(limit) +
                             " of memory, found that " + SizeText(needed) + " are needed (" + why +
                             ", and " + SizeText(kProgramMemory) + " for the program)",
                         "give --memory-limit " + std::to_string(mebibytes) + "M or more");
}

void CheckOwnMemory(const std::string& during) {
  const uint64_t own = OwnMemory();
  const uint64_t limit = MemoryLimit();
  if (own <= limit) return;
  throw EnvironmentError("expected to stay within " + SizeText(limit) + " of memory, found " +
                             SizeText(own) + " after " + during,
                         "give a larger --memory-limit, smaller samples or a smaller --batch");
}

uint64_t OwnMemory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) << 10;
  }
  return 0;
}

std::string SizeText(uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  auto value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %ciB", value, kUnits[unit]);
  return text.data();
}

std::optional<uint64_t> ParseSize(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  std::string_view suffix(rest, static_cast<size_t>(end - rest));
  if (!suffix.empty()) {
    const char letter = suffix[0] >= 'a' ? static_cast<char>(suffix[0] - 'a' + 'A') : suffix[0];
    const size_t unit = kUnits.find(letter);
    if (unit != std::string_view::npos) {
      value = std::ldexp(value, static_cast<int>(10 * (unit + 1)));
      suffix.remove_prefix(1);
      if (suffix.starts_with("i")) suffix.remove_prefix(suffix.ends_with("B") ? 1 : 0);
    }
    if (suffix.starts_with("B")) suffix.remove_prefix(1);
  }
  // Beyond 2^63 nothing is a size of memory.
  if (!suffix.empty() || !(value >= 1) || value >= 0x1p63) return std::nullopt;
  return static_cast<uint64_t>(value);
}

}  // namespace hif8
