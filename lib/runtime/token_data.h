// What networks of checkpoints read: sequences of token ids, or images.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lib/model/tokenizer/text_data.h"
#include "lib/runtime/dataset.h"

namespace hif8 {

struct TokenData {
  std::vector<std::vector<int64_t>> samples;
  std::string source;  // file name, for errors
  // In their place for networks that read images: runs of one sample each, input "pixel_values".
  std::shared_ptr<Dataset> images = nullptr;

  size_t most = SIZE_MAX;  // samples that are used, the first ones

  size_t size() const {
    return std::min(most, images ? static_cast<size_t>(images->samples()) : samples.size());
  }
};

// Reads as LoadTokenSequences (lib/model/tokenizer/text_data.h) does; ids are not checked here.
TokenData ReadTokenData(const std::filesystem::path& path, const TextDataOptions& options);

// Throws kModel naming sample and position of an id that is not in [0, vocabulary), and for samples
// without tokens or no samples at all.
void CheckTokenIds(const TokenData& data, int64_t vocabulary);

}  // namespace hif8
