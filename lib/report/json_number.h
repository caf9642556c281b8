// How reports write numbers in JSON. Inside of lib/report's .cc files.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/report/report.h"

namespace hif8 {

// Writes null for what was not measured, the text "inf" or "-inf" for infinity.
inline nlohmann::ordered_json NumberJson(const Measured& value) {
  if (!value || std::isnan(*value)) return nullptr;
  if (std::isinf(*value)) return *value > 0 ? "inf" : "-inf";
  return *value;
}

}  // namespace hif8
