// The vector paths of table formats, compiled for every instruction set and chosen at run time.
#pragma once

#include <array>
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

// Encodes by the ramps of the format, 16 to 64 elements at a time; where ties go away and the
// machine has look-ups in 128 bytes, by the tables made from them.
void EncodeByRamps(const EncodeJob& job, const CodeRamps& ramps, const RankTables& tables);
// Encodes symmetric 8-bit integers.
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

// The values of all codes as bytes of bf16. Where a sign bit negates, only the codes without it are
// in the tables; one that has no other bit set may stand for something else than -0.
struct ByteTables {
  std::array<uint8_t, 256> low{};
  std::array<uint8_t, 256> high{};
  size_t size = 0;   // entries used: 16, 128 or 256
  uint8_t sign = 0;  // 0x80, or 0 where the tables hold every code
  uint8_t low_of_sign = 0;
  uint8_t high_of_sign = 0;
};
ByteTables MakeByteTables(std::span<const float> values);

// Codes to decode.
struct DecodeJob {
  const uint8_t* codes;
  ScaleOperand scale;
  float* y;
  size_t count;
  bool past_caches;  // y is aligned to 64 bytes and does not fit the caches
};

// Decodes whole vectors from the front; returns how many elements that were.
size_t DecodeByTables(const DecodeJob& job, const ByteTables& tables);

}  // namespace hif8
