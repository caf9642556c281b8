#include "lib/numeric/fake_quantize.h"

#include <algorithm>

namespace hif8 {

void FakeQuantize::Apply(int input_axis, const Shape& shape, std::span<const float> x,
                         std::span<float> y) const {
  if (dynamic) return QuantizeDequantizeDynamic(*format, *dynamic, input_axis, shape, x, y);
  std::span<const float> values = x;
  if (clip) {
    const float most = *clip;
    std::transform(x.begin(), x.end(), y.begin(),
                   [most](float v) { return std::clamp(v, -most, most); });
    values = y;
  }
  format->QuantizeDequantize(values, ScaleOperand::One(scale), y);
}

}  // namespace hif8
