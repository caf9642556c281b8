// What text and Markdown say beside the table of layers.
#pragma once

#include <string>
#include <vector>

#include "lib/report/writer.h"

namespace hif8 {

// One sentence per line: counts and coverage, network outputs, perplexity, data, warnings.
std::vector<std::string> SummaryLines(const Report& report);

// The table that people read when they name no columns, without those that nothing fills. Sorted
// worst output first unless the user chose otherwise.
std::vector<const Column*> UsualColumns(const Report& report);
std::vector<const LayerReport*> UsualLayers(const Report& report, const WriteOptions& options);

// The SQNR that tells most about a layer: its output's, else that of activation or weight.
Measured MainSqnr(const LayerReport& layer);

}  // namespace hif8
