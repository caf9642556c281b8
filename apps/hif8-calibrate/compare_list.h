// The list that --compare takes.
#pragma once

#include <string>
#include <vector>

#include "lib/quant/config.h"
#include "lib/quant/format_comparison.h"

namespace hif8 {

// "mxfp8,hif8:mse,fp8_e4m3:all" or "all", the default format always first. Throws a usage error for
// a format or a rule that is not known, and for a rule of a format whose scales no rule chooses.
std::vector<FormatChoice> ParseCompareList(const std::string& text, const ParseContext& context);

}  // namespace hif8
