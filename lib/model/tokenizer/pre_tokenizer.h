// The pre-tokenizers of tokenizer.json: Split, ByteLevel, Metaspace, Digits and Sequence.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/model/tokenizer/json_view.h"

namespace hif8 {

// A part of a document, never empty.
struct TextPiece {
  std::string text;
  bool first;  // begins where the document begins
};
using TextPieces = std::vector<TextPiece>;

// Cuts (and rewrites) pieces further.
using PreTokenizer = std::function<TextPieces(TextPieces)>;

// Returns nothing for null. Refuses any other component with kModel by its name.
PreTokenizer MakePreTokenizer(const std::optional<JsonView>& config);

}  // namespace hif8
