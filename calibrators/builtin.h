// The scale rules that come with the project.
#pragma once

#include "lib/quant/calibrator.h"

namespace hif8 {

// Returns all of them, by the names that recipes use. Thread-safe; lives as long as the process.
const CalibratorRegistry& BuiltinCalibrators();

}  // namespace hif8
