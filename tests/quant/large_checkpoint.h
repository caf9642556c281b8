// What the tests of large checkpoints share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>

namespace hif8::test {

// Normal numbers near 2^-6 of any sign and fraction, without computing them one by one.
inline std::string RandomBf16(size_t bytes) {
  std::string data(bytes, '\0');
  std::mt19937_64 random(5);
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    const uint64_t bits = (random() & 0x807F807F807F807FULL) | 0x3C003C003C003C00ULL;
    std::memcpy(data.data() + i, &bits, 8);
  }
  return data;
}

// Resident anonymous memory of this process in bytes.
inline uint64_t OwnMemory() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) * 1024;
  }
  return 0;
}

// Largest own memory while it lives.
class MemoryWatch {
 public:
  MemoryWatch()
      : thread_([this] {
          while (!stop_) {
            peak_ = std::max<uint64_t>(peak_, OwnMemory());
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
        }) {}
  ~MemoryWatch() { Stop(); }
  uint64_t peak() const { return peak_; }
  uint64_t Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return peak_;
  }

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> peak_ = 0;
  std::thread thread_;
};

}  // namespace hif8::test
