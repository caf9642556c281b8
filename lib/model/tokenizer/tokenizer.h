// Text to token ids, with the tokenizer that comes with a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

namespace hif8 {

class Tokenizer {
 public:
  // Reads `tokenizer.json` (type BPE, byte-level or with byte fallback, or WordPiece) from the
  // folder, or, where there is none, `tokenizer.model` (SentencePiece) or `vocab.txt` (WordPiece).
  // Throws kModel, naming file and place, when none is there, the file is damaged, or it has a
  // component that is not supported.
  static std::unique_ptr<Tokenizer> Load(const std::filesystem::path& checkpoint_dir);

  virtual ~Tokenizer() = default;

  // Returns the ids of one document, the same as the format's own library gives.
  // `with_post_processor` adds what belongs around a document (a begin-of-text token, say). Special
  // tokens in the text are recognised. Throws kModel naming the byte offset where `document` is not
  // well-formed UTF-8. May be called by several threads.
  std::vector<int32_t> Encode(std::string_view document, bool with_post_processor = true) const;

  // Returns one more than the largest id that Encode can give.
  virtual size_t vocab_size() const = 0;

 private:
  // `document` is well-formed.
  virtual std::vector<int32_t> EncodeText(std::string_view document,
                                          bool with_post_processor) const = 0;
};

}  // namespace hif8
