#include "lib/model/safetensors/stored_scales.h"

#include "lib/numeric/scale_codes.h"

namespace hif8 {

bool AreScales(const NumberFormat& format, DType dtype) {
  if (!format.ScalesFollowAmax()) return IsFloat(dtype);
  const NumberFormat* codes = format.storage().scale_format;
  if (codes != nullptr) return dtype == codes->storage().dtype;
  return dtype == DType::kU8 || dtype == DType::kF8E8M0;
}

std::vector<float> ScaleNumbers(const NumberFormat& format, const TensorView& stored,
                                const TensorView& global) {
  if (format.ScalesFollowAmax()) {
    float global_scale = 1;
    if (global.size() > 0) ConvertToFloat(global.dtype, global.data, 1, &global_scale);
    const auto* codes = reinterpret_cast<const uint8_t*>(stored.data);
    return ScaleValues(format, {codes, stored.size()}, global_scale);
  }
  std::vector<float> numbers(stored.size());
  ConvertToFloat(stored.dtype, stored.data, numbers.size(), numbers.data());
  return numbers;
}

bool CodesInFile::operator()(const NumberFormat& format) const {
  const bool named = packed || codes != DType::kU8;
  // Two codes are a byte, of whichever type.
  const DType type = packed && codes == DType::kI8 ? DType::kU8 : codes;
  return type == format.storage().dtype && packed == format.packed() && AreScales(format, scales) &&
         (named || format.name() == unnamed);
}

}  // namespace hif8
