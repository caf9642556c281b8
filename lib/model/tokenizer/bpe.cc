#include "lib/model/tokenizer/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

#include "lib/model/tokenizer/pattern_config.h"
#include "lib/model/tokenizer/utf8.h"

namespace hif8 {
namespace {

// Words repeat; what is longer or comes after so many is not worth keeping.
constexpr size_t kMaxCachedWord = 256;
constexpr size_t kMaxCachedWords = 1 << 16;

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

void RefuseText(const JsonView& model, const std::string& key) {
  const std::optional<JsonView> value = model.Find(key);
  if (value && !value->String().empty()) {
    throw RefuseComponent(*value, "subword mark", value->String(), "models without marks");
  }
}

// The two parts of a merge: "a b" or ["a", "b"].
std::pair<std::string_view, std::string_view> MergeParts(const nlohmann::json& item,
                                                         const JsonView& merges, size_t index) {
  if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string()) {
    return {item[0].get_ref<const std::string&>(), item[1].get_ref<const std::string&>()};
  }
  if (item.is_string()) {
    const std::string_view text = item.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string_view::npos) return {text.substr(0, space), text.substr(space + 1)};
  }
  throw merges.Fail("expected two tokens as merge " + std::to_string(index));
}

uint64_t CharacterPair(std::string_view text, size_t left, size_t right) {
  return PairKey(static_cast<int32_t>(Utf8Decode(text, left)),
                 static_cast<int32_t>(Utf8Decode(text, right)));
}

struct Candidate {
  uint32_t rank;
  size_t pos;
  int32_t id;
  // The top of a priority queue is its largest: the earliest in the list, the leftmost of equals.
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : pos > other.pos;
  }
};

}  // namespace

Bpe::Bpe(const JsonView& model) {
  const std::optional<JsonView> dropout = model.Find("dropout");
  if (dropout && !(dropout->raw().is_number() && dropout->raw().get<double>() == 0)) {
    throw RefuseComponent(*dropout, "option", "dropout", "models that encode without chance");
  }
  RefuseText(model, "continuing_subword_prefix");
  RefuseText(model, "end_of_word_suffix");
  fuse_unknown_ = model.BoolOr("fuse_unk", false);
  ignore_merges_ = model.BoolOr("ignore_merges", false);
  ReadVocabulary(model);
  ReadMerges(model);
  if (const std::optional<JsonView> unknown = model.Find("unk_token")) {
    unknown_ = Find(unknown->String());
    if (!unknown_) throw unknown->Fail("'" + unknown->String() + "' is not in the vocabulary");
  }
  if (model.BoolOr("byte_fallback", false)) {
    for (int byte = 0; byte < 256; ++byte) {
      byte_ids_.push_back(Find(fmt::format("<0x{:02X}>", byte)).value_or(-1));
    }
  }
}

void Bpe::ReadVocabulary(const JsonView& model) {
  const JsonView vocab = model.Get("vocab");
  if (!vocab.IsObject()) throw vocab.Fail("expected an object of tokens and their ids");
  vocabulary_.reserve(vocab.raw().size());
  for (const auto& item : vocab.raw().items()) {
    const nlohmann::json& value = item.value();
    const int32_t id = value.is_number_unsigned() && value.get<uint64_t>() < (1U << 30)
                           ? value.get<int32_t>()
                           : vocab.Get(item.key()).Id();
    vocabulary_.emplace(item.key(), id);
    largest_id_ = std::max(largest_id_, id);
  }
  if (vocabulary_.empty()) throw vocab.Fail("the vocabulary is empty");
}

void Bpe::ReadMerges(const JsonView& model) {
  const JsonView merges = model.Get("merges");
  if (!merges.IsArray()) throw merges.Fail("expected a list of pairs of tokens");
  merges_.reserve(merges.raw().size());
  std::string joined;
  for (size_t i = 0; i < merges.raw().size(); ++i) {
    const auto [left, right] = MergeParts(merges.raw()[i], merges, i);
    joined.assign(left).append(right);
    const std::optional<int32_t> left_id = Find(left);
    const std::optional<int32_t> right_id = Find(right);
    const std::optional<int32_t> id = Find(joined);
    if (!left_id || !right_id || !id) {
      const std::string missing(!left_id ? left : !right_id ? right : std::string_view(joined));
      throw merges.Fail("merge " + std::to_string(i) + " needs '" + missing +
                        "', which is not in the vocabulary");
    }
    merges_[PairKey(*left_id, *right_id)] = {static_cast<uint32_t>(i), *id};
  }
}

std::optional<int32_t> Bpe::Find(std::string_view token) const {
  const auto at = vocabulary_.find(token);
  if (at == vocabulary_.end()) return std::nullopt;
  return at->second;
}

const Bpe::Merge* Bpe::FindMerge(int32_t left, int32_t right) const {
  const auto at = merges_.find(PairKey(left, right));
  return at == merges_.end() ? nullptr : &at->second;
}

void Bpe::Encode(std::string_view word, std::vector<int32_t>* ids) const {
  if (word.empty()) return;
  if (ignore_merges_) {
    if (const std::optional<int32_t> id = Find(word)) return ids->push_back(*id);
  }
  if (word.size() <= kMaxCachedWord) return EncodeSegment(word, ids);
  for (size_t begin = 0; begin < word.size();) {
    const size_t end = SegmentEnd(word, begin);
    EncodeSegment(word.substr(begin, end - begin), ids);
    begin = end;
  }
}

// Without a pre-tokenizer a whole document is one word. No token has a letter followed by a space,
// say; then no merge joins the two, and what is on either side can be encoded alone. Unknown
// characters stay with their neighbours, since several may become one token.
size_t Bpe::SegmentEnd(std::string_view word, size_t begin) const {
  std::call_once(inner_pairs_made_, [this] { CollectInnerPairs(); });
  const auto known = [&](size_t at) {
    return vocabulary_.contains(word.substr(at, Utf8Length(word[at])));
  };
  for (size_t left = begin;;) {
    const size_t right = left + Utf8Length(word[left]);
    if (right >= word.size()) return word.size();
    if (!inner_pairs_.contains(CharacterPair(word, left, right)) && known(left) && known(right)) {
      return right;
    }
    left = right;
  }
}

void Bpe::CollectInnerPairs() const {
  for (const auto& [token, id] : vocabulary_) {
    for (size_t left = 0; left < token.size();) {
      const size_t right = left + Utf8Length(token[left]);
      if (right < token.size()) inner_pairs_.insert(CharacterPair(token, left, right));
      left = right;
    }
  }
}

void Bpe::EncodeSegment(std::string_view word, std::vector<int32_t>* ids) const {
  const bool cached = word.size() <= kMaxCachedWord;
  if (cached) {
    const std::scoped_lock lock(cache_mutex_);
    const auto hit = cache_.find(word);
    if (hit != cache_.end()) {
      ids->insert(ids->end(), hit->second.begin(), hit->second.end());
      return;
    }
  }
  std::vector<int32_t> symbols = Characters(word);
  Join(&symbols);
  ids->insert(ids->end(), symbols.begin(), symbols.end());
  if (cached) {
    const std::scoped_lock lock(cache_mutex_);
    if (cache_.size() < kMaxCachedWords) cache_.emplace(word, std::move(symbols));
  }
}

std::vector<int32_t> Bpe::Characters(std::string_view word) const {
  std::vector<int32_t> ids;
  ids.reserve(word.size());
  bool after_unknown = false;
  for (size_t i = 0, length = 0; i < word.size(); i += length) {
    length = Utf8Length(word[i]);
    const std::string_view character = word.substr(i, length);
    if (const std::optional<int32_t> id = Find(character)) {
      ids.push_back(*id);
      after_unknown = false;
      continue;
    }
    const auto byte_id = [&](char c) { return byte_ids_[static_cast<uint8_t>(c)]; };
    if (!byte_ids_.empty() &&
        std::all_of(character.begin(), character.end(), [&](char c) { return byte_id(c) >= 0; })) {
      std::transform(character.begin(), character.end(), std::back_inserter(ids), byte_id);
      after_unknown = false;
    } else if (unknown_) {
      if (!(fuse_unknown_ && after_unknown)) ids.push_back(*unknown_);
      after_unknown = true;
    }
    // Without any fallback the character is dropped, as the format's own library does.
  }
  return ids;
}

// A doubly linked list of symbols and a queue of the pairs that can be joined: n log n for a word
// of n characters. Entries of the queue whose symbols have changed meanwhile are skipped.
void Bpe::Join(std::vector<int32_t>* symbols) const {
  struct Node {
    int32_t id;
    size_t previous, next;  // `n` is none
    bool gone;
  };
  const size_t n = symbols->size();
  std::vector<Node> nodes(n);
  for (size_t i = 0; i < n; ++i) nodes[i] = {(*symbols)[i], i == 0 ? n : i - 1, i + 1, false};
  std::priority_queue<Candidate> queue;
  const auto offer = [&](size_t pos) {
    if (pos == n || nodes[pos].next == n) return;
    if (const Merge* merge = FindMerge(nodes[pos].id, nodes[nodes[pos].next].id)) {
      queue.push({merge->rank, pos, merge->id});
    }
  };
  for (size_t i = 0; i < n; ++i) offer(i);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Node& left = nodes[top.pos];
    if (left.gone || left.next == n) continue;
    Node& right = nodes[left.next];
    const Merge* merge = FindMerge(left.id, right.id);
    if (merge == nullptr || merge->id != top.id) continue;
    left.id = top.id;
    right.gone = true;
    left.next = right.next;
    if (left.next != n) nodes[left.next].previous = top.pos;
    offer(left.previous);
    offer(top.pos);
  }
  symbols->clear();
  for (const Node& node : nodes) {
    if (!node.gone) symbols->push_back(node.id);
  }
}

}  // namespace hif8
