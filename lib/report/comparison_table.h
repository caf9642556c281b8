// What text and Markdown say of two runs.
#pragma once

#include <string>
#include <vector>

#include "lib/report/writer.h"

namespace hif8 {

// Returns the layers that both runs have: what became worst first, unless the user chose an order.
std::vector<ComparedLayer> UsualComparedLayers(const RunComparison& runs,
                                               const WriteOptions& options);

// Titles, then a line per layer: its name, then for each metric the value and its change, where
// "▼" ("worse" without Unicode) marks what became worse.
std::vector<std::vector<std::string>> ComparisonLines(const RunComparison& runs,
                                                      const WriteOptions& options);

// Returns one sentence per line: what is compared, the network's metrics, what has no partner.
std::vector<std::string> ComparisonSummary(const RunComparison& runs, const WriteOptions& options);

}  // namespace hif8
