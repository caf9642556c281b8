// Sequences of token ids: the data of language models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lib/model/tokenizer/text_data.h"

namespace hif8 {

struct TokenData {
  std::vector<std::vector<int64_t>> samples;
  std::string source;  // file name, for errors
};

// Reads as LoadTokenSequences (lib/model/tokenizer/text_data.h) does; ids are not checked here.
TokenData ReadTokenData(const std::filesystem::path& path, const TextDataOptions& options);

// Throws kModel naming sample and position of an id that is not in [0, vocabulary), and for samples
// without tokens or no samples at all.
void CheckTokenIds(const TokenData& data, int64_t vocabulary);

}  // namespace hif8
