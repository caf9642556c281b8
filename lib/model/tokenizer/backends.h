// The two kinds of tokenizer files.
#pragma once

#include <filesystem>
#include <memory>

#include "lib/model/tokenizer/tokenizer.h"

namespace hif8 {

std::unique_ptr<Tokenizer> LoadTokenizerJson(const std::filesystem::path& file);

// `dir` has a tokenizer.model. Its tokenizer_config.json, where there is one, tells which tokens
// are added (`added_tokens_decoder`) and whether documents begin (`add_bos_token`, yes by default)
// and end
// (`add_eos_token`, no by default) with the model's special token.
std::unique_ptr<Tokenizer> LoadSentencePiece(const std::filesystem::path& dir);

}  // namespace hif8
