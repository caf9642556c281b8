// Byte-pair encoding as tokenizer.json describes it: characters of a word are joined pair by pair,
// the pair that stands earliest in the merge list first.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lib/model/tokenizer/json_view.h"
#include "lib/model/tokenizer/subword_model.h"

namespace hif8 {

class Bpe : public SubwordModel {
 public:
  // The `model` of tokenizer.json. Throws kModel for dropout, prefixes and suffixes of subwords,
  // and for merges whose parts or result are not in the vocabulary.
  explicit Bpe(const JsonView& model);

  void Encode(std::string_view word, std::vector<int32_t>* ids) const override;
  std::optional<int32_t> Find(std::string_view token) const override;
  int32_t largest_id() const override { return largest_id_; }

 private:
  struct Merge {
    uint32_t rank;
    int32_t id;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  template <typename T>
  using TextMap = std::unordered_map<std::string, T, Hash, std::equal_to<>>;

  void ReadVocabulary(const JsonView& model);
  void ReadMerges(const JsonView& model);
  void EncodeSegment(std::string_view word, std::vector<int32_t>* ids) const;
  // Finds where a long word can be cut without any effect on its ids: the end of the segment that
  // begins at `begin`.
  size_t SegmentEnd(std::string_view word, size_t begin) const;
  void CollectInnerPairs() const;
  // Returns one id per character, or several for one that falls back to bytes.
  std::vector<int32_t> Characters(std::string_view word) const;
  void Join(std::vector<int32_t>* symbols) const;
  const Merge* FindMerge(int32_t left, int32_t right) const;

  TextMap<int32_t> vocabulary_;
  std::unordered_map<uint64_t, Merge> merges_;
  std::vector<int32_t> byte_ids_;  // of <0x00> to <0xFF>, -1 for a missing one; empty: no fallback
  std::optional<int32_t> unknown_;
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;
  int32_t largest_id_ = -1;

  // Neighbouring characters inside any token; made when the first long word comes.
  mutable std::once_flag inner_pairs_made_;
  mutable std::unordered_set<uint64_t> inner_pairs_;
  mutable std::mutex cache_mutex_;
  mutable TextMap<std::vector<int32_t>> cache_;
};

}  // namespace hif8
