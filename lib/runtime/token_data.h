// Sequences of token ids: the data of language models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace hif8 {

struct TokenData {
  std::vector<std::vector<int64_t>> samples;
  std::string source;  // file name, for errors
};

struct TokenDataOptions {
  size_t samples = 0;                      // use the first so many; 0: all
  size_t sequence_length = 512;            // text is cut into samples of so many tokens
  std::filesystem::path tokenizer_folder;  // the checkpoint's, for text
};

// Reads by the file's extension:
//   .npy    token ids: [N, T] are N samples, [T] is one, as they are
//   .jsonl  one JSON object a line: {"input_ids": [...]} is a sample as it is, {"text": "..."} a
//           document; not both kinds in one file
//   .txt    one document
// Documents are tokenized one by one (each with what the tokenizer puts around a document), joined
// and cut at `sequence_length`; a last piece of less than two tokens is dropped. Throws kModel
// naming file and line for anything else.
TokenData ReadTokenData(const std::filesystem::path& path, const TokenDataOptions& options);

// Throws kModel naming sample and position of an id that is not in [0, vocabulary), and for samples
// without tokens or no samples at all.
void CheckTokenIds(const TokenData& data, int64_t vocabulary);

}  // namespace hif8
