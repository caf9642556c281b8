// What text and Markdown say beside the table of layers.
#pragma once

#include <string>
#include <vector>

#include "lib/report/writer.h"

namespace hif8 {

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
