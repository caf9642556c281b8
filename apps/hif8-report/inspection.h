// What `hif8-report inspect` found, as plain data, and its two forms.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/core/log.h"
#include "lib/model/stored_model.h"
#include "lib/quant/plan.h"

namespace hif8 {

using ExponentCounts = std::map<int, uint64_t>;  // floor(log2 |x|) -> values, zeros left out

// Tells what a recipe makes of a tensor.
struct PlannedTensor {
  std::string reason;  // why it is kept, or empty
  std::string format, granularity, scale_rule;
};

struct InspectedTensor {
  StoredTensor stored;
  bool measured = false;  // has values
  double amax = 0, rms = 0;
  uint64_t zeros = 0, non_finite = 0;
  ExponentCounts exponents;
  std::optional<PlannedTensor> plan;  // absent where no layer has it
};

struct Inspection {
  std::string path, kind;
  uint64_t file_bytes = 0, parameters = 0;
  std::vector<InspectedTensor> tensors;
  ExponentCounts exponents;  // of all
  // Counts the same values after each tensor is scaled so that its largest magnitude is `target`.
  ExponentCounts scaled;
  double target = 0;
  std::string recipe;  // its name
  PlanSummary plan;
  std::string caveat;   // of the plan
  std::string no_plan;  // why there is none, or empty
};

// Fills all but the plan.
Inspection InspectTensors(const StoredModel& model, const FormatRegistry& formats, double target,
                          LogSink& log);

std::string InspectionText(const Inspection& inspection, const NumberFormat& format, bool unicode,
                           size_t width);
std::string InspectionJson(const Inspection& inspection);

}  // namespace hif8
