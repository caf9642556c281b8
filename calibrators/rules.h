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

}  // namespace hif8
