#include "lib/runtime/decode_budget.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>

namespace hif8 {
namespace {

// The decoder's allocation functions take no argument of the caller's.
thread_local DecodeBudget* current = nullptr;

}  // namespace

DecodeBudget::DecodeBudget(const Limits& limits) : outer_(current), limits_(limits) {
  current = this;
}

DecodeBudget::~DecodeBudget() { current = outer_; }

bool DecodeBudget::Take(uint64_t bytes) {
  const bool structure = bytes > limits_.structure - std::min(limits_.structure, taken_);
  const bool memory = bytes > limits_.memory - std::min(limits_.memory, taken_);
  if (structure || memory) {
    if (exceeded_ == Exceeded::kNothing) {
      exceeded_ = structure ? Exceeded::kStructure : Exceeded::kMemory;
    }
    return false;
  }
  return true;
}

void* DecodeBudget::Allocate(size_t size) { return Reallocate(nullptr, size); }

void* DecodeBudget::Reallocate(void* block, size_t size) {
  if (current == nullptr) return std::realloc(block, size);
  // The old block counts until the new one holds its bytes.
  if (!current->Take(size)) return nullptr;
  const uint64_t before = block == nullptr ? 0 : malloc_usable_size(block);
  void* moved = std::realloc(block, size);
  if (moved == nullptr) return nullptr;
  current->taken_ += malloc_usable_size(moved);
  current->taken_ -= std::min(current->taken_, before);
  return moved;
}

void DecodeBudget::Free(void* block) {
  if (current != nullptr && block != nullptr) {
    current->taken_ -= std::min<uint64_t>(current->taken_, malloc_usable_size(block));
  }
  std::free(block);
}

}  // namespace hif8
