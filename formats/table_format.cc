#include "formats/table_format.h"

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
  const auto one_by_one = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      y[i] = table_[codes[i]] * scale.values[scale.per_value ? i : 0];
    }
  };
  const bool past_caches = codes.size() >= kStreamed;
  const size_t past_line = reinterpret_cast<uintptr_t>(y.data()) % kLine / sizeof(float);
  const size_t head = past_caches && past_line != 0 ? kLine / sizeof(float) - past_line : 0;
  one_by_one(0, head);
  const ScaleOperand scale_from_head{scale.values + (scale.per_value ? head : 0), scale.per_value};
  const size_t done = DecodeByTables(
      {codes.data() + head, scale_from_head, y.data() + head, codes.size() - head, past_caches},
      byte_tables_);
  one_by_one(head + done, codes.size());
}

void TableFormat::QuantizeDequantize(std::span<const float> x, ScaleOperand scale,
                                     std::span<float> y) const {
  RoundRun({this, x.data(), scale, y.data(), x.size()});
}

}  // namespace hif8
