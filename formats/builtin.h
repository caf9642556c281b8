// The number formats that come with the project.
#pragma once

#include "lib/numeric/number_format.h"

namespace hif8 {

// Returns the formats that are written, by the names that recipes use. Thread-safe, as the others;
// live as long as the process.
const FormatRegistry& BuiltinFormats();
// Returns those as well that are only read, from files that other programs wrote.
const FormatRegistry& StoredFormats();

}  // namespace hif8
