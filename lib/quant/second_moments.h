// Second moments of a layer's inputs, summed over a calibration set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hif8 {

// Second moments of some of a layer's inputs: the mean of x xᵀ over `rows` vectors x.
struct SecondMoments {
  std::vector<double> values;  // [inputs, inputs], symmetric
  size_t inputs = 0;
  uint64_t rows = 0;
};

// Sums x xᵀ over rows, for blocks of at most `block` inputs each: moments between blocks are left
// out. The sum depends on the order of the rows, not on the number of threads.
class MomentSums {
 public:
  MomentSums(size_t inputs, size_t block);

  // Adds rows [count, inputs]; those with a value that is not finite are left out.
  void Add(std::span<const float> rows);

  size_t inputs() const { return inputs_; }
  size_t block() const { return block_; }
  size_t blocks() const { return (inputs_ + block_ - 1) / block_; }
  // Returns the means of block number `index`, whose first input is index * block().
  SecondMoments Block(size_t index) const;

  // Returns the bytes that the sums of so many inputs take.
  static uint64_t Bytes(size_t inputs, size_t block);

 private:
  size_t inputs_, block_;
  uint64_t rows_ = 0;
  // [inputs, min(block, inputs)]: row i holds the moments of input i and those of its block. Only
  // the half where the other one does not come before it is summed.
  std::vector<double> sums_;
};

}  // namespace hif8
