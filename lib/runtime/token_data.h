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

// As LoadTokenSequences (lib/model/tokenizer/text_data.h) reads it; ids are not checked here.
TokenData ReadTokenData(const std::filesystem::path& path, const TokenDataOptions& options);

// Throws kModel naming sample and position of an id that is not in [0, vocabulary), and for samples
// without tokens or no samples at all.
void CheckTokenIds(const TokenData& data, int64_t vocabulary);

}  // namespace hif8
