// What the components of tokenizer.json have in common.
#pragma once

#include <string>

#include "lib/model/tokenizer/json_view.h"
#include "lib/model/tokenizer/split_regex.h"

namespace hif8 {

// {"String": text} or {"Regex": pattern}.
SplitRegex MakePattern(const JsonView& config);

// The error for a component that is not supported: names it, its kind and what is.
Error RefuseComponent(const JsonView& config, const std::string& kind, const std::string& name,
                      const std::string& supported);

}  // namespace hif8
