#include "formats/table_format.h"

#include <array>
#include <cmath>
#include <cstdint>

namespace hif8 {
namespace {

// The code of x / scale. A finite x saturates even when the quotient overflows fp32.
uint8_t EncodeScaled(const NumberFormat& format, float x, float scale, Overflow overflow) {
  float q = x / scale;
  if (std::isinf(q) && std::isfinite(x) && overflow == Overflow::kSaturate) {
    q = std::copysign(format.OverflowThreshold(), x);
  }
  return format.EncodeOne(q, overflow);
}

constexpr size_t kLine = 64;                   // bytes of a cache line
constexpr size_t kStreamed = size_t{1} << 20;  // values that no longer fit a core's caches

struct RunOfCodes {
  const float* table;
  std::span<const uint8_t> codes;
  ScaleOperand scale;

  void Decode(size_t begin, size_t n, float* __restrict y) const {
    const uint8_t* code = codes.data() + begin;
    if (scale.per_value) {
      const float* scales = scale.values + begin;
      for (size_t i = 0; i < n; ++i) y[i] = table[code[i]] * scales[i];
    } else {
      const float one = scale.values[0];
      for (size_t i = 0; i < n; ++i) y[i] = table[code[i]] * one;
    }
  }
};

}  // namespace

void EncodeReference(const EncodeJob& job, size_t begin, size_t end) {
  const size_t size = DTypeSize(job.dtype);
  for (size_t i = begin; i < end; ++i) {
    float x;
    ConvertToFloat(job.dtype, job.x + i * size, 1, &x);
    const float scale = job.scale.values[job.scale.per_value ? i : 0];
    job.codes[i] = EncodeScaled(*job.format, x, scale, job.overflow);
  }
}

void RoundReference(const RoundJob& job, size_t begin, size_t end) {
  const std::span<const float> table = job.format->DecodeTable();
  for (size_t i = begin; i < end; ++i) {
    const float x = job.x[i];
    const float scale = job.scale.values[job.scale.per_value ? i : 0];
    const uint8_t code = EncodeScaled(*job.format, x, scale, Overflow::kSaturate);
    // The sum makes +0 of -0.
    job.y[i] = std::isfinite(x) ? table[code] * scale + 0.0F : x;
  }
}

void TableFormat::Encode(DType dtype, const std::byte* x, ScaleOperand scale,
                         std::span<uint8_t> codes, Overflow overflow) const {
  EncodeRun({this, dtype, x, scale, codes.data(), codes.size(), overflow});
}

void TableFormat::Decode(std::span<const uint8_t> codes, ScaleOperand scale,
                         std::span<float> y) const {
  const RunOfCodes run{table_.data(), codes, scale};
  if (codes.size() < kStreamed) {
    run.Decode(0, codes.size(), y.data());
    return;
  }
  const size_t misaligned = reinterpret_cast<uintptr_t>(y.data()) % kLine / sizeof(float);
  size_t i = misaligned == 0 ? 0 : kLine / sizeof(float) - misaligned;
  run.Decode(0, i, y.data());
  alignas(kLine) std::array<float, 1024> piece;
  for (; i + piece.size() <= codes.size(); i += piece.size()) {
    run.Decode(i, piece.size(), piece.data());
    StreamFloats(piece.data(), y.data() + i, piece.size());
  }
  run.Decode(i, codes.size() - i, y.data() + i);
}

void TableFormat::QuantizeDequantize(std::span<const float> x, ScaleOperand scale,
                                     std::span<float> y) const {
  RoundRun({this, x.data(), scale, y.data(), x.size()});
}

}  // namespace hif8
