// Rule `cast`: scale 1, values are converted as they are.
#include <algorithm>

#include "calibrators/rules.h"

namespace hif8 {
namespace {

// The format's largest value is what maps to itself; nothing was looked at to choose it.
ScaleChoice Direct(float amax, const NumberFormat& format) {
  ScaleChoice choice;
  choice.scale = 1;
  choice.reference = format.MaxFinite();
  choice.target = choice.reference;
  choice.amax = amax;
  return choice;
}

class CastRule : public Calibrator {
 public:
  std::string_view name() const override { return "cast"; }
  std::string_view description() const override { return "scale 1: convert directly"; }
  bool NeedsData() const override { return false; }
  ScaleChoice Solve(std::span<const float> values, const NumberFormat& format,
                    const ScaleParams& /*params*/) const override {
    return Direct(Amax(values), format);
  }
  ScaleChoice SolvePieces(const ValuePieces& values, const NumberFormat& format,
                          const ScaleParams& /*params*/) const override {
    float amax = 0;
    values([&](std::span<const float> piece) { amax = std::max(amax, Amax(piece)); });
    return Direct(amax, format);
  }
  ScaleChoice Solve(const TensorStats& stats, const NumberFormat& format,
                    const ScaleParams& /*params*/) const override {
    return Direct(stats.amax(), format);
  }
};

}  // namespace

std::shared_ptr<const Calibrator> MakeCastRule() { return std::make_shared<CastRule>(); }

}  // namespace hif8
