// What `hif8-report inspect` found, as plain data, and its two forms.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/core/log.h"
#include "lib/model/stored_model.h"

namespace hif8 {

using ExponentCounts = std::map<int, uint64_t>;  // floor(log2 |x|) -> values, zeros left out

struct InspectedTensor {
  StoredTensor stored;
  bool measured = false;  // has values
  double amax = 0, rms = 0;
  uint64_t zeros = 0, non_finite = 0;
  ExponentCounts exponents;
  std::string
      plan;  // what the recipe makes of it: "hif8 channel max", "kept: ..."; empty: no layer
};

struct Inspection {
  std::string path, kind;
  uint64_t file_bytes = 0, parameters = 0;
  std::vector<InspectedTensor> tensors;
  ExponentCounts exponents;  // of all
  // Counts the same values after each tensor is scaled so that its largest magnitude is `target`.
  ExponentCounts scaled;
  double target = 0;
  std::string recipe;        // its name
  std::string plan_summary;  // "21 of 22 layers quantized, ...", or why there is no plan
};

// Fills all but the plan.
Inspection InspectTensors(const StoredModel& model, const FormatRegistry& formats, double target,
                          LogSink& log);

std::string InspectionText(const Inspection& inspection, const NumberFormat& format, bool unicode,
                           size_t width);
std::string InspectionJson(const Inspection& inspection);

}  // namespace hif8
