// The hidden states of all samples between two blocks of a network.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hif8 {

// In memory where they fit, else in a temporary file without a name, which disappears with the
// object. Errors of that file are kEnvironment.
class HiddenStates {
 public:
  // `sizes`: elements of each sample.
  HiddenStates(const std::vector<size_t>& sizes, uint64_t memory_limit);
  ~HiddenStates();
  HiddenStates(const HiddenStates&) = delete;
  HiddenStates& operator=(const HiddenStates&) = delete;

  size_t samples() const { return begin_.size() - 1; }
  bool in_memory() const { return fd_ < 0; }
  // Returns the states of one sample, written before; valid until the next call.
  std::span<const float> Read(size_t sample);
  // `values` may be fewer than the sample has; the others stay.
  void Write(size_t sample, std::span<const float> values);
  // Adds to the elements of a sample that begin at `first`.
  void Add(size_t sample, size_t first, std::span<const float> values);

 private:
  void ReadFile(uint64_t first, std::span<float> values) const;
  void WriteFile(uint64_t first, std::span<const float> values);

  std::vector<uint64_t> begin_;  // first element of each sample, and the end
  std::vector<float> values_;    // all of them, or one sample that was read from the file
  int fd_ = -1;
};

}  // namespace hif8
