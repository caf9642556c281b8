// Rule `max`: the largest magnitude is mapped to the target.
#include <algorithm>
#include <bit>

#include "calibrators/rules.h"
#include "lib/numeric/vector_kernels.h"

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
  ScaleChoice SolvePieces(const ValuePieces& values, const NumberFormat& format,
                          const ScaleParams& params) const override {
    float amax = 0;
    values([&](std::span<const float> piece) { amax = std::max(amax, Amax(piece)); });
    return ChooseScale(amax, amax, format, params);
  }
  ScaleChoice Solve(const TensorStats& stats, const NumberFormat& format,
                    const ScaleParams& params) const override {
    return ChooseScale(stats.amax(), stats.amax(), format, params);
  }
};

}  // namespace

float Amax(std::span<const float> values) {
  return std::bit_cast<float>(ScanMagnitudes(values.data(), values.size()).most);
}

std::shared_ptr<const Calibrator> MakeMaxRule() { return std::make_shared<MaxRule>(); }

}  // namespace hif8
