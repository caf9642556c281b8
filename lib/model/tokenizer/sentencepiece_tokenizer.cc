// tokenizer.model, read and applied by the SentencePiece library.
#include <sentencepiece_processor.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/mapped_file.h"
#include "lib/core/output_dir.h"
#include "lib/model/tokenizer/added_tokens.h"
#include "lib/model/tokenizer/backends.h"
#include "lib/model/tokenizer/json_view.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;

void Check(const sentencepiece::util::Status& status, const fs::path& file) {
  if (status.ok()) return;
  throw ModelError("the SentencePiece library reports: " + status.ToString(),
                   "the file is damaged or no SentencePiece model", file.string());
}

struct Settings {
  bool begin = true;
  bool end = false;
  std::vector<AddedToken> added;
};

AddedToken ReadEntry(const std::string& key, const JsonView& entry) {
  int32_t id = -1;
  const auto [rest, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || rest != key.data() + key.size() || id < 0) {
    throw entry.Fail("expected a token id as key, found '" + key + "'");
  }
  return ReadAddedToken(entry, id);
}

Settings ReadSettings(const fs::path& file) {
  Settings settings;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return settings;
  const nlohmann::json document = ParseJson(ReadFile(file), file.string());
  const JsonView view(document, file.string());
  settings.begin = view.BoolOr("add_bos_token", true);
  settings.end = view.BoolOr("add_eos_token", false);
  if (const std::optional<JsonView> added = view.Find("added_tokens_decoder")) {
    for (const auto& [key, entry] : added->Members()) {
      settings.added.push_back(ReadEntry(key, entry));
    }
  }
  return settings;
}

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(fs::path file, const Settings& settings)
      : file_(std::move(file)), added_(settings.added) {
    const std::shared_ptr<const MappedFile> mapped = MappedFile::Open(file_);
    const std::span<const std::byte> bytes = mapped->bytes();
    Check(processor_.LoadFromSerializedProto(
              {reinterpret_cast<const char*>(bytes.data()), bytes.size()}),
          file_);
    vocab_size_ = static_cast<size_t>(std::max(processor_.GetPieceSize(), 0));
    for (const AddedToken& token : settings.added) {
      vocab_size_ = std::max(vocab_size_, static_cast<size_t>(token.id) + 1);
    }
    if (settings.begin) begin_ = processor_.bos_id();
    if (settings.end) end_ = processor_.eos_id();
  }

  size_t vocab_size() const override { return vocab_size_; }

 private:
  std::vector<int32_t> EncodeText(std::string_view document,
                                  bool with_post_processor) const override {
    std::vector<int32_t> ids;
    if (with_post_processor && begin_ >= 0) ids.push_back(begin_);
    for (const AddedTokenFinder::Section& section : added_.Find(document)) {
      if (section.id) {
        ids.push_back(*section.id);
        continue;
      }
      std::vector<int> part;
      Check(processor_.Encode(document.substr(section.begin, section.end - section.begin), &part),
            file_);
      ids.insert(ids.end(), part.begin(), part.end());
    }
    if (with_post_processor && end_ >= 0) ids.push_back(end_);
    return ids;
  }

  fs::path file_;
  sentencepiece::SentencePieceProcessor processor_;
  AddedTokenFinder added_;
  int32_t begin_ = -1;
  int32_t end_ = -1;
  size_t vocab_size_ = 0;
};

}  // namespace

std::unique_ptr<Tokenizer> LoadSentencePiece(const fs::path& dir) {
  return std::make_unique<SentencePieceTokenizer>(dir / "tokenizer.model",
                                                  ReadSettings(dir / "tokenizer_config.json"));
}

}  // namespace hif8
