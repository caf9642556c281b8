#include "lib/runtime/token_data.h"

#include "lib/core/error.h"

namespace hif8 {

TokenData ReadTokenData(const std::filesystem::path& path, const TextDataOptions& options) {
  TokenData data;
  data.source = path.string();
  for (const std::vector<int32_t>& ids : LoadTokenSequences(path, options)) {
    data.samples.emplace_back(ids.begin(), ids.end());
  }
  return data;
}

void CheckTokenIds(const TokenData& data, int64_t vocabulary) {
  if (data.images) return;
  if (data.samples.empty()) {
    throw ModelError("the data has no sample of at least two tokens", "give more text",
                     data.source);
  }
  for (size_t i = 0; i < data.samples.size(); ++i) {
    const std::vector<int64_t>& ids = data.samples[i];
    if (ids.empty()) {
      throw ModelError("sample " + std::to_string(i) + " has no tokens", "leave empty samples out",
                       data.source);
    }
    for (size_t t = 0; t < ids.size(); ++t) {
      if (ids[t] >= 0 && ids[t] < vocabulary) continue;
      throw ModelError("sample " + std::to_string(i) + ", position " + std::to_string(t) +
                           ": expected a token id from 0 to " + std::to_string(vocabulary - 1) +
                           ", found " + std::to_string(ids[t]),
                       "was the data made with the tokenizer of this model?", data.source);
    }
  }
}

}  // namespace hif8
