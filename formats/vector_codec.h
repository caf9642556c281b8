// The vector paths of table formats, compiled for every instruction set and chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/code_ramps.h"
#include "lib/numeric/number_format.h"

namespace hif8 {

// A run of values to encode: x holds `count` elements of `dtype`, at any alignment.
struct EncodeJob {
  const NumberFormat* format;
  DType dtype;  // F32, F16 or BF16
  const std::byte* x;
  ScaleOperand scale;
  uint8_t* codes;
  size_t count;
  Overflow overflow;
};

// Elements [begin, end) one by one: what every other path must equal.
void EncodeReference(const EncodeJob& job, size_t begin, size_t end);

// The same by the ramps of the format, 16 to 64 elements at a time.
void EncodeByRamps(const EncodeJob& job, const CodeRamps& ramps);
// The same for symmetric 8-bit integers.
void EncodeIntegers(const EncodeJob& job);

// A run of values to quantize and dequantize; x and y may be the same.
struct RoundJob {
  const NumberFormat* format;
  const float* x;
  ScaleOperand scale;
  float* y;
  size_t count;
};

// Elements [begin, end) one by one: what every other path must equal.
void RoundReference(const RoundJob& job, size_t begin, size_t end);
void RoundByRamps(const RoundJob& job, const CodeRamps& ramps);
void RoundIntegers(const RoundJob& job);

// Copies past the caches: for results that do not fit them, whose lines are then not read first.
// Both pointers are aligned to 64 bytes, `count` is a multiple of 16.
void StreamFloats(const float* from, float* to, size_t count);

}  // namespace hif8
