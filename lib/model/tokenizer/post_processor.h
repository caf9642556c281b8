// The post-processors of tokenizer.json: TemplateProcessing, ByteLevel (which changes no id) and
// Sequence.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lib/model/tokenizer/json_view.h"

namespace hif8 {

// Adds what belongs around the ids of one document.
using PostProcessor = std::function<std::vector<int32_t>(std::vector<int32_t>)>;

// Returns nothing for null. Refuses any other component with kModel by its name.
PostProcessor MakePostProcessor(const std::optional<JsonView>& config);

}  // namespace hif8
