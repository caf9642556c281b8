#include "lib/model/tokenizer/tokenizer.h"

#include <system_error>

#include "lib/core/error.h"
#include "lib/model/tokenizer/backends.h"
#include "lib/model/tokenizer/utf8.h"

namespace hif8 {

std::unique_ptr<Tokenizer> Tokenizer::Load(const std::filesystem::path& checkpoint_dir) {
  std::error_code ignored;
  if (std::filesystem::exists(checkpoint_dir / "tokenizer.json", ignored)) {
    return LoadTokenizerJson(checkpoint_dir / "tokenizer.json");
  }
  if (std::filesystem::exists(checkpoint_dir / "tokenizer.model", ignored)) {
    return LoadSentencePiece(checkpoint_dir);
  }
  if (std::filesystem::exists(checkpoint_dir / "vocab.txt", ignored)) {
    return LoadVocabulary(checkpoint_dir);
  }
  throw ModelError(
      "expected a tokenizer.json, a tokenizer.model or a vocab.txt to turn text into token ids, "
      "found none",
      "copy the tokenizer's files beside config.json, or give the data as token ids "
      "(.npy, or .jsonl with input_ids)",
      checkpoint_dir.string());
}

std::vector<int32_t> Tokenizer::Encode(std::string_view document, bool with_post_processor) const {
  if (const std::optional<size_t> offset = FindInvalidUtf8(document)) {
    throw ModelError(
        "expected UTF-8 text, found an invalid byte at offset " + std::to_string(*offset),
        "convert the text to UTF-8");
  }
  return EncodeText(document, with_post_processor);
}

}  // namespace hif8
