// Number formats side by side: the text form of a report's comparisons.
#pragma once

#include <span>
#include <string>

#include "lib/report/report.h"

namespace hif8 {

// Returns one line per layer and operand, one column of SQNR in dB per format, the best of each
// line marked with '*', then the mean of each operand over its layers. `where` holds conditions
// layer=, operand= and format= (exact) or ~ (regular expression), all of which must hold. Throws
// kUsage for another condition, and when the report has no comparisons.
std::string FormatTable(const Report& report, std::span<const std::string> where);

}  // namespace hif8
