// Tokens that are found in a text as they are, before anything else is done to it: "<|im_start|>",
// "<s>", "[MASK]".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/model/tokenizer/json_view.h"

namespace hif8 {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // only where no letter, digit or mark touches it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and behind it
  bool normalized = false;   // looked for in the normalized text, else in the text as given
};

// Reads one entry of tokenizer.json's `added_tokens` or of tokenizer_config.json's
// `added_tokens_decoder`, which has the id as key (`id` given) instead of a member.
AddedToken ReadAddedToken(const JsonView& config, std::optional<int32_t> id = std::nullopt);

// Finds a set of tokens: leftmost first, the longest of those that begin at one place.
class AddedTokenFinder {
 public:
  // Empty contents are never found.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  // A part of a text: a token's id, or what lies between tokens (never empty).
  struct Section {
    size_t begin;
    size_t end;
    std::optional<int32_t> id;
  };
  std::vector<Section> Find(std::string_view text) const;

 private:
  struct Node {
    std::vector<std::pair<char, size_t>> children;
    int token = -1;  // index into tokens_
    std::optional<size_t> Child(char c) const;
  };
  const AddedToken* LongestAt(std::string_view text, size_t pos) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::array<bool, 256> first_{};  // first bytes of all tokens
};

}  // namespace hif8
