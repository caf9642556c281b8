#include "lib/numeric/scale_codes.h"

#include <algorithm>
#include <limits>

#include "lib/numeric/block_scale.h"

namespace hif8 {
namespace {

bool IsE8M0(const NumberFormat& format) { return format.scale_encoding() == ScaleEncoding::kE8M0; }

}  // namespace

float GlobalScale(const NumberFormat& format, float amax, float target) {
  const NumberFormat* const scales = format.storage().scale_format;
  if (scales == nullptr || !(amax > 0)) return 1;
  const float most = scales->MinPositive() / std::numeric_limits<float>::min();
  return std::min(scales->MaxFinite() * target / amax, most);
}

uint8_t ScaleCodeFromAmax(const NumberFormat& format, float amax, float target,
                          float global_scale) {
  if (IsE8M0(format)) return E8M0FromAmax(amax, format);
  const NumberFormat& scales = *format.storage().scale_format;
  const uint8_t code = scales.EncodeOne(amax / target * global_scale, Overflow::kSaturate);
  if (scales.DecodeTable()[code] > 0) return code;
  return scales.EncodeOne(scales.MinPositive(), Overflow::kSaturate);
}

uint8_t ScaleCode(const NumberFormat& format, float scale, float global_scale) {
  if (IsE8M0(format)) return E8M0Code(scale);
  return format.storage().scale_format->EncodeOne(scale * global_scale, Overflow::kSaturate);
}

float ScaleValue(const NumberFormat& format, uint8_t code, float global_scale) {
  if (IsE8M0(format)) return E8M0Value(code);
  return format.storage().scale_format->DecodeTable()[code] / global_scale;
}

std::vector<uint8_t> ScaleCodes(const NumberFormat& format, std::span<const float> scales,
                                float global_scale) {
  std::vector<uint8_t> codes(scales.size());
  std::ranges::transform(scales, codes.begin(),
                         [&](float scale) { return ScaleCode(format, scale, global_scale); });
  return codes;
}

std::vector<float> ScaleValues(const NumberFormat& format, std::span<const uint8_t> codes,
                               float global_scale) {
  std::vector<float> values(codes.size());
  std::ranges::transform(codes, values.begin(),
                         [&](uint8_t code) { return ScaleValue(format, code, global_scale); });
  return values;
}

}  // namespace hif8
