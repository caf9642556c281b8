// The goal of --auto, between what is measured and what a report calls it.
#pragma once

#include <string>

#include "lib/quant/pipeline.h"
#include "lib/report/gate.h"
#include "lib/report/report.h"

namespace hif8 {

// Throws a usage error for a text that is no goal.
AutoGoal MakeAutoGoal(const std::string& text);

// Tells how the goal was sought; nothing when there was none.
std::optional<AutoReport> MakeAutoReport(const Model& model, const PipelineResult& result,
                                         const AutoGoal& goal);

// Throws kGate when a goal was not met.
void RequireGoal(const Report& report);

}  // namespace hif8
