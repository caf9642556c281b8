#include "formats/table_format.h"

#include <algorithm>
#include <array>
#include <cmath>
namespace hif8 {
namespace {

ScaleOperand Advance(ScaleOperand scale, size_t i) {
  if (scale.per_value) scale.values += i;
  return scale;
}

}  // namespace

void EncodeReference(const EncodeJob& job, size_t begin, size_t end) {
  const size_t size = DTypeSize(job.dtype);
  for (size_t i = begin; i < end; ++i) {
    float x;
    ConvertToFloat(job.dtype, job.x + i * size, 1, &x);
    float q = x / job.scale.values[job.scale.per_value ? i : 0];
    if (std::isinf(q) && std::isfinite(x) && job.overflow == Overflow::kSaturate) {
      q = std::copysign(job.format->OverflowThreshold(), x);
    }
    job.codes[i] = job.format->EncodeOne(q, job.overflow);
  }
}

void TableFormat::Encode(DType dtype, const std::byte* x, ScaleOperand scale,
                         std::span<uint8_t> codes, Overflow overflow) const {
  EncodeRun({this, dtype, x, scale, codes.data(), codes.size(), overflow});
}

void TableFormat::Decode(std::span<const uint8_t> codes, ScaleOperand scale,
                         std::span<float> y) const {
  const float* table = table_.data();
  if (scale.per_value) {
    for (size_t i = 0; i < codes.size(); ++i) y[i] = table[codes[i]] * scale.values[i];
  } else {
    const float one = scale.values[0];
    for (size_t i = 0; i < codes.size(); ++i) y[i] = table[codes[i]] * one;
  }
}

void TableFormat::QuantizeDequantize(std::span<const float> x, ScaleOperand scale,
                                     std::span<float> y) const {
  constexpr size_t kPiece = 1024;
  std::array<uint8_t, kPiece> codes;
  std::array<float, kPiece> values;
  for (size_t begin = 0; begin < x.size(); begin += kPiece) {
    const size_t n = std::min(kPiece, x.size() - begin);
    const ScaleOperand piece_scale = Advance(scale, begin);
    Encode(DType::kF32, reinterpret_cast<const std::byte*>(x.data() + begin), piece_scale,
           std::span(codes).first(n), Overflow::kSaturate);
    Decode(std::span(codes).first(n), piece_scale, std::span(values).first(n));
    for (size_t i = 0; i < n; ++i) {
      const float original = x[begin + i];
      // The sum makes +0 of -0.
      y[begin + i] = std::isfinite(original) ? values[i] + 0.0F : original;
    }
  }
}

}  // namespace hif8
