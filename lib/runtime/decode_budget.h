// Bounds the memory that an image decoder takes. The decoder allocates through these functions,
// which know nothing of images, so that a file that inflates to any size ends in a failed
// allocation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hif8 {

// While it lives, allocations of its thread are counted and fail beyond either limit. Blocks must
// be freed in the thread that made them; those made outside of any budget are not counted.
class DecodeBudget {
 public:
  // In bytes: what an image of its size can need, and what the memory limit leaves.
  struct Limits {
    uint64_t structure = 0;
    uint64_t memory = 0;
  };
  enum class Exceeded { kNothing, kStructure, kMemory };

  explicit DecodeBudget(const Limits& limits);
  ~DecodeBudget();
  DecodeBudget(const DecodeBudget&) = delete;
  DecodeBudget& operator=(const DecodeBudget&) = delete;

  // Tells which limit an allocation failed at, the first time.
  Exceeded exceeded() const { return exceeded_; }

  // Act as malloc, realloc and free; null beyond a limit.
  static void* Allocate(size_t size);
  static void* Reallocate(void* block, size_t size);
  static void Free(void* block);

 private:
  bool Take(uint64_t bytes);

  DecodeBudget* outer_;
  Limits limits_;
  uint64_t taken_ = 0;
  Exceeded exceeded_ = Exceeded::kNothing;
};

}  // namespace hif8
