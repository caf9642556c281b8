#include "lib/model/safetensors/stored_scales.h"

#include "lib/numeric/block_scale.h"

namespace hif8 {

bool AreScales(const NumberFormat& format, DType dtype) {
  return format.scale_encoding() == ScaleEncoding::kE8M0 ? dtype == DType::kU8 : IsFloat(dtype);
}

std::vector<float> ScaleNumbers(const NumberFormat& format, const TensorView& stored) {
  std::vector<float> numbers(stored.size());
  if (format.scale_encoding() == ScaleEncoding::kFp32) {
    ConvertToFloat(stored.dtype, stored.data, numbers.size(), numbers.data());
    return numbers;
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = E8M0Value(static_cast<uint8_t>(stored.data[i]));
  }
  return numbers;
}

bool CodesInFile::operator()(const NumberFormat& format) const {
  const bool named = packed || codes != DType::kU8;
  return codes == format.storage().dtype && packed == format.packed() &&
         AreScales(format, scales) && (named || format.name() == unnamed);
}

}  // namespace hif8
