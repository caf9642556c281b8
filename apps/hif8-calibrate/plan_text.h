// --dry-run: the plan, layer by layer.
#pragma once

#include <string>

#include "lib/model/model.h"
#include "lib/quant/plan.h"

namespace hif8 {

// Returns an aligned table with one line per layer, then totals. Sizes are of weights as stored
// before and after.
std::string PlanText(const Model& model, const QuantPlan& plan);

// Formats the plan as one JSON document.
std::string PlanJson(const Model& model, const QuantPlan& plan);

}  // namespace hif8
