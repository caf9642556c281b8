// The kinds of tokenizer files.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/model/tokenizer/tokenizer.h"

namespace hif8 {

std::unique_ptr<Tokenizer> LoadTokenizerJson(const std::filesystem::path& file);
// Makes one of what such a file holds; `file` is for errors.
std::unique_ptr<Tokenizer> MakeTokenizer(const nlohmann::json& document, const std::string& file);

// Reads `dir`, which has a vocab.txt, the tokens of BERT's WordPiece in the order of their ids. Its
// tokenizer_config.json, where there is one, tells whether text becomes lower case
// (`do_lower_case`, yes by default).
std::unique_ptr<Tokenizer> LoadVocabulary(const std::filesystem::path& dir);

// `dir` has a tokenizer.model. Its tokenizer_config.json, where there is one, tells which tokens
// are added (`added_tokens_decoder`) and whether documents begin (`add_bos_token`, yes by default)
// and end
// (`add_eos_token`, no by default) with the model's special token.
std::unique_ptr<Tokenizer> LoadSentencePiece(const std::filesystem::path& dir);

}  // namespace hif8
