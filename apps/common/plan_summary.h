// What a plan quantizes, for people and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/quant/plan.h"

namespace hif8 {

// Returns the line that begins a report's summary; sizes are of weights, not of files.
std::string PlanLine(const PlanSummary& summary);

// Returns the same as an object: counts, bytes of weights, shares from 0 to 1 (null: unknown).
nlohmann::ordered_json PlanSummaryJson(const PlanSummary& summary);

}  // namespace hif8
