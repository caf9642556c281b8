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

// An .npy array of integers: [N, T] are N samples, [T] is one. Throws kModel for anything else.
TokenData ReadTokenIds(const std::filesystem::path& path);

// Throws kModel naming sample and position of an id that is not in [0, vocabulary), and for samples
// without tokens.
void CheckTokenIds(const TokenData& data, int64_t vocabulary);

}  // namespace hif8
