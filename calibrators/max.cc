// Rule `max`: the largest magnitude is mapped to the target.
#include <bit>
#include <cstdint>

#include "calibrators/rules.h"

namespace hif8 {
namespace {

class MaxRule : public Calibrator {
 public:
  std::string_view name() const override { return "max"; }
  std::string_view description() const override { return "largest magnitude -> target"; }
  ScaleChoice Solve(std::span<const float> values, const NumberFormat& format,
                    const ScaleParams& params) const override {
    const float amax = Amax(values);
    return ChooseScale(amax, amax, format, params);
  }
  ScaleChoice Solve(const TensorStats& stats, const NumberFormat& format,
                    const ScaleParams& params) const override {
    return ChooseScale(stats.amax(), stats.amax(), format, params);
  }
};

}  // namespace

float Amax(std::span<const float> values) {
  // Magnitudes order like their bits; an integer maximum is vectorized where a float one is not.
  int32_t most = 0;
  for (const float v : values) {
    const auto bits = static_cast<int32_t>(std::bit_cast<uint32_t>(v) & 0x7fffffffU);
    most = bits > most ? bits : most;
  }
  return std::bit_cast<float>(most);
}

std::shared_ptr<const Calibrator> MakeMaxRule() { return std::make_shared<MaxRule>(); }

}  // namespace hif8
