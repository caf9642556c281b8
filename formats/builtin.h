// The number formats that come with the project.
#pragma once

#include "lib/numeric/number_format.h"

namespace hif8 {

// All of them, by the names that recipes use. Thread-safe; lives as long as the process.
const FormatRegistry& BuiltinFormats();

}  // namespace hif8
