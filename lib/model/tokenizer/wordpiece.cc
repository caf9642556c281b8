// WordPiece, as BERT splits words: the longest token that a word begins with, then of what is left
// the longest one that is marked as the continuation of a word. Source: the paper of Google's
// translation system (arXiv 1609.08144), BERT's own description of its tokenizer.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "lib/core/input_file.h"
#include "lib/model/tokenizer/backends.h"
#include "lib/model/tokenizer/bpe.h"
#include "lib/model/tokenizer/pattern_config.h"
#include "lib/model/tokenizer/subword_model.h"
#include "lib/model/tokenizer/utf8.h"

namespace hif8 {
namespace {

class WordPiece : public SubwordModel {
 public:
  explicit WordPiece(const JsonView& model) {
    for (const auto& [token, id] : model.Get("vocab").Members()) {
      vocabulary_[token] = id.Id();
      longest_ = std::max(longest_, token.size());
      largest_id_ = std::max(largest_id_, id.Id());
    }
    if (const auto mark = model.Find("continuing_subword_prefix")) mark_ = mark->String();
    if (const auto most = model.Find("max_input_chars_per_word")) most_ = most->Id();
    const JsonView unknown = model.Get("unk_token");
    const std::optional<int32_t> id = Find(unknown.String());
    if (!id) throw unknown.Fail("'" + unknown.String() + "' is not in the vocabulary");
    unknown_ = *id;
  }

  void Encode(std::string_view word, std::vector<int32_t>* ids) const override {
    const auto characters = std::count_if(
        word.begin(), word.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; });
    std::vector<int32_t> pieces;
    for (size_t begin = 0; begin < word.size();) {
      const auto [id, end] = Longest(word, begin);
      if (end == begin || characters > most_) {
        ids->push_back(unknown_);
        return;
      }
      pieces.push_back(id);
      begin = end;
    }
    ids->insert(ids->end(), pieces.begin(), pieces.end());
  }

  std::optional<int32_t> Find(std::string_view token) const override {
    const auto it = vocabulary_.find(std::string(token));
    return it == vocabulary_.end() ? std::nullopt : std::optional(it->second);
  }
  int32_t largest_id() const override { return largest_id_; }

 private:
  // The longest token at `begin`, and where it ends; `begin` where there is none.
  std::pair<int32_t, size_t> Longest(std::string_view word, size_t begin) const {
    const std::string mark = begin == 0 ? "" : mark_;
    for (size_t end = std::min(word.size(), begin + longest_); end > begin; --end) {
      const bool between = end < word.size() && (static_cast<uint8_t>(word[end]) & 0xc0) == 0x80;
      if (between) continue;
      const auto it = vocabulary_.find(mark + std::string(word.substr(begin, end - begin)));
      if (it != vocabulary_.end()) return {it->second, end};
    }
    return {unknown_, begin};
  }

  std::unordered_map<std::string, int32_t> vocabulary_;
  std::string mark_ = "##";
  int64_t most_ = 100;  // characters of a word; longer ones are unknown
  size_t longest_ = 0;  // bytes of a token
  int32_t unknown_ = 0;
  int32_t largest_id_ = -1;
};

}  // namespace

std::unique_ptr<SubwordModel> MakeSubwordModel(const JsonView& model) {
  const std::optional<JsonView> type = model.Find("type");
  // Old files do not name the type; what they hold tells it.
  const std::string name = type ? type->String()
                           : model.Find("continuing_subword_prefix") && !model.Find("merges")
                               ? "WordPiece"
                               : "BPE";
  if (name == "BPE") return std::make_unique<Bpe>(model);
  if (name == "WordPiece") return std::make_unique<WordPiece>(model);
  throw RefuseComponent(*type, "model", name, "models of type BPE and WordPiece");
}

std::unique_ptr<Tokenizer> LoadVocabulary(const std::filesystem::path& dir) {
  const std::filesystem::path file = dir / "vocab.txt";
  const std::string text = ReadFile(file);
  nlohmann::json vocabulary = nlohmann::json::object();
  uint32_t id = 0;  // JSON tells signs apart
  for (size_t begin = 0; begin < text.size(); ++id) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string token = text.substr(begin, end - begin);
    if (token.ends_with('\r')) token.pop_back();
    vocabulary[token] = id;
    begin = end + 1;
  }
  bool lowercase = true;
  const std::filesystem::path settings = dir / "tokenizer_config.json";
  if (std::filesystem::exists(settings)) {
    const nlohmann::json json = ParseJson(ReadFile(settings), settings.string());
    lowercase = JsonView(json, settings.string()).BoolOr("do_lower_case", true);
  }
  nlohmann::json added = nlohmann::json::array();
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    if (vocabulary.contains(token)) {
      added.push_back({{"id", vocabulary[token]}, {"content", token}, {"special", true}});
    }
  }
  nlohmann::json document = {
      {"added_tokens", added},
      {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", lowercase}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"model", {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"vocab", vocabulary}}}};
  if (vocabulary.contains("[CLS]") && vocabulary.contains("[SEP]")) {
    document["post_processor"] = {{"type", "BertProcessing"},
                                  {"cls", {"[CLS]", vocabulary["[CLS]"]}},
                                  {"sep", {"[SEP]", vocabulary["[SEP]"]}}};
  }
  return MakeTokenizer(document, file.string());
}

}  // namespace hif8
