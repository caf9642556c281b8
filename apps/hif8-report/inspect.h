// hif8-report inspect: what is in a model's files, and what a recipe would do with it.
#pragma once

#include "apps/common/console.h"
#include "apps/common/parse.h"

namespace hif8 {

// Prints to stdout: a table and histograms, or with --json one document. Tensors are read one after
// the other in pieces. Throws as OpenStoredModel and LoadConfig.
void Inspect(const cli::ParsedOptions& options, cli::Console& console);

}  // namespace hif8
