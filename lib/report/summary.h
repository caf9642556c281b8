// What text and Markdown say beside the table of layers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/report/writer.h"

namespace hif8 {

// Says how much is quantized, planned or done.
struct QuantizedCounts {
  size_t layers = 0, quantized = 0;
  size_t weight_only = 0;  // of the quantized ones
  size_t caches = 0;       // quantized ones
  CoverageReport coverage;
  std::string sizes_of;  // that the bytes are of, with a space behind it; empty: the model's files
  std::optional<int64_t> bytes_before, bytes_after;
};
// Returns "42 of 55 layers and 12 caches quantized; 89.9 % of parameters, 100 % of multiply-adds;
// 10.5 MB -> 5.85 MB", without what there is not; "quantized (weight-only)", or "(3 of them
// weight-only)", where layers are.
std::string CountsLine(const QuantizedCounts& counts);

// Returns one sentence per line: counts and coverage, network outputs, perplexity, data, warnings.
std::vector<std::string> SummaryLines(const Report& report);

// Returns the layers that people read: worst output first unless the user chose otherwise.
std::vector<const LayerReport*> UsualLayers(const Report& report, const WriteOptions& options);
// Returns the columns chosen, or else the usual ones without those that none of the layers fills.
std::vector<const Column*> UsualColumns(const std::vector<const LayerReport*>& layers,
                                        const WriteOptions& options);

// Returns the SQNR that tells most about a layer: its output's, else that of activation or weight.
Measured MainSqnr(const LayerReport& layer);

}  // namespace hif8
