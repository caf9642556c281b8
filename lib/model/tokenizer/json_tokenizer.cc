// tokenizer.json, in the order of its library: added tokens, normalizer, added tokens once more,
// pre-tokenizer, model, post-processor. Its truncation and padding are not applied: documents are
// cut to the sequence length that the user asks for.
#include <algorithm>
#include <string>
#include <utility>

#include "lib/core/mapped_file.h"
#include "lib/model/tokenizer/added_tokens.h"
#include "lib/model/tokenizer/backends.h"
#include "lib/model/tokenizer/json_view.h"
#include "lib/model/tokenizer/normalizer.h"
#include "lib/model/tokenizer/post_processor.h"
#include "lib/model/tokenizer/pre_tokenizer.h"
#include "lib/model/tokenizer/subword_model.h"

namespace hif8 {
namespace {

class JsonTokenizer : public Tokenizer {
 public:
  JsonTokenizer(const JsonView& document, const std::vector<AddedToken>& added)
      : model_(MakeSubwordModel(document.Get("model"))),
        normalizer_(MakeNormalizer(document.Find("normalizer"))),
        pre_tokenizer_(MakePreTokenizer(document.Find("pre_tokenizer"))),
        post_processor_(MakePostProcessor(document.Find("post_processor"))),
        as_given_(Select(added, false, nullptr)),
        in_normalized_(Select(added, true, normalizer_)),
        vocab_size_(static_cast<size_t>(model_->largest_id()) + 1) {
    for (const AddedToken& token : added) {
      const std::optional<int32_t> id = model_->Find(token.content);
      if (id && *id != token.id) {
        throw document.Get("added_tokens")
            .Fail("'" + token.content + "' has the id " + std::to_string(token.id) +
                  ", in the vocabulary it has " + std::to_string(*id));
      }
      vocab_size_ = std::max(vocab_size_, static_cast<size_t>(token.id) + 1);
    }
  }

  size_t vocab_size() const override { return vocab_size_; }

 private:
  static AddedTokenFinder Select(const std::vector<AddedToken>& added, bool normalized,
                                 const Normalizer& normalizer) {
    std::vector<AddedToken> selected;
    for (const AddedToken& token : added) {
      if (token.normalized != normalized) continue;
      selected.push_back(token);
      if (normalizer) selected.back().content = normalizer(token.content);
    }
    return AddedTokenFinder(std::move(selected));
  }

  std::vector<int32_t> EncodeText(std::string_view document,
                                  bool with_post_processor) const override {
    std::vector<int32_t> ids;
    for (const AddedTokenFinder::Section& section : as_given_.Find(document)) {
      if (section.id) {
        ids.push_back(*section.id);
      } else {
        EncodeSection(document.substr(section.begin, section.end - section.begin),
                      section.begin == 0, &ids);
      }
    }
    return with_post_processor && post_processor_ ? post_processor_(std::move(ids)) : ids;
  }

  void EncodeSection(std::string_view given, bool first, std::vector<int32_t>* ids) const {
    const std::string text = normalizer_ ? normalizer_(std::string(given)) : std::string(given);
    for (const AddedTokenFinder::Section& section : in_normalized_.Find(text)) {
      if (section.id) {
        ids->push_back(*section.id);
        continue;
      }
      TextPieces pieces = {
          {text.substr(section.begin, section.end - section.begin), first && section.begin == 0}};
      if (pre_tokenizer_) pieces = pre_tokenizer_(std::move(pieces));
      for (const TextPiece& piece : pieces) model_->Encode(piece.text, ids);
    }
  }

  std::unique_ptr<SubwordModel> model_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  PostProcessor post_processor_;
  AddedTokenFinder as_given_;
  AddedTokenFinder in_normalized_;
  size_t vocab_size_;
};

}  // namespace

std::unique_ptr<Tokenizer> MakeTokenizer(const nlohmann::json& document, const std::string& file) {
  const JsonView view(document, file);
  std::vector<AddedToken> added;
  if (const std::optional<JsonView> list = view.Find("added_tokens")) {
    for (const JsonView& item : list->Items()) added.push_back(ReadAddedToken(item));
  }
  return std::make_unique<JsonTokenizer>(view, added);
}

std::unique_ptr<Tokenizer> LoadTokenizerJson(const std::filesystem::path& file) {
  const std::shared_ptr<const MappedFile> mapped = MappedFile::Open(file);
  const std::span<const std::byte> bytes = mapped->bytes();
  const nlohmann::json document =
      ParseJson({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.string());
  return MakeTokenizer(document, file.string());
}

}  // namespace hif8
