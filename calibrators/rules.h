// The scale rules, one file each.
#pragma once

#include <memory>

#include "lib/quant/calibrator.h"

namespace hif8 {

std::shared_ptr<const Calibrator> MakeMaxRule();
std::shared_ptr<const Calibrator> MakePercentileRule();
std::shared_ptr<const Calibrator> MakeMseRule();
std::shared_ptr<const Calibrator> MakeEmaRule();
std::shared_ptr<const Calibrator> MakeDelayedRule();
std::shared_ptr<const Calibrator> MakeCastRule();

// The largest magnitude of finite values.
float Amax(std::span<const float> values);

}  // namespace hif8
