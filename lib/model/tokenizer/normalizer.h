// The normalizers of tokenizer.json: BertNormalizer, Lowercase, NFC, NFD, NFKC, NFKD, Prepend,
// Replace and Sequence.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lib/model/tokenizer/json_view.h"

namespace hif8 {

// Well-formed UTF-8 in and out.
using Normalizer = std::function<std::string(std::string)>;

// Returns nothing for null. Refuses any other component with kModel by its name.
Normalizer MakeNormalizer(const std::optional<JsonView>& config);

}  // namespace hif8
