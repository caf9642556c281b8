#include "lib/model/tokenizer/added_tokens.h"

#include <unicode/uchar.h>

#include <algorithm>

#include "lib/model/tokenizer/utf8.h"

namespace hif8 {
namespace {

bool IsSpace(char32_t c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_WHITE_SPACE) != 0;
}

// \w of Unicode's regular expressions (UTS 18, annex C).
bool IsWord(char32_t c) {
  const auto code = static_cast<UChar32>(c);
  const uint32_t mask = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return u_hasBinaryProperty(code, UCHAR_ALPHABETIC) != 0 ||
         u_hasBinaryProperty(code, UCHAR_JOIN_CONTROL) != 0 ||
         (U_MASK(u_charType(code)) & mask) != 0;
}

// Where the character before `pos` begins; `pos` is above 0.
size_t Previous(std::string_view text, size_t pos) {
  do {
    --pos;
  } while ((static_cast<uint8_t>(text[pos]) & 0xc0) == 0x80);
  return pos;
}

bool TouchesWord(std::string_view text, size_t begin, size_t end) {
  return (begin > 0 && IsWord(Utf8Decode(text, Previous(text, begin)))) ||
         (end < text.size() && IsWord(Utf8Decode(text, end)));
}

}  // namespace

AddedToken ReadAddedToken(const JsonView& config, std::optional<int32_t> id) {
  AddedToken token;
  token.id = id ? *id : config.Get("id").Id();
  token.content = config.Get("content").String();
  token.single_word = config.BoolOr("single_word", false);
  token.lstrip = config.BoolOr("lstrip", false);
  token.rstrip = config.BoolOr("rstrip", false);
  token.normalized = config.BoolOr("normalized", !config.BoolOr("special", false));
  return token;
}

std::optional<size_t> AddedTokenFinder::Node::Child(char c) const {
  for (const auto& [byte, node] : children) {
    if (byte == c) return node;
  }
  return std::nullopt;
}

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), nodes_(1) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& content = tokens_[i].content;
    if (content.empty()) continue;
    first_[static_cast<uint8_t>(content[0])] = true;
    size_t node = 0;
    for (const char c : content) {
      std::optional<size_t> child = nodes_[node].Child(c);
      if (!child) {
        child = nodes_.size();
        nodes_[node].children.emplace_back(c, *child);
        nodes_.emplace_back();
      }
      node = *child;
    }
    nodes_[node].token = static_cast<int>(i);
  }
}

const AddedToken* AddedTokenFinder::LongestAt(std::string_view text, size_t pos) const {
  if (!first_[static_cast<uint8_t>(text[pos])]) return nullptr;
  int found = -1;
  std::optional<size_t> node = 0;
  for (; pos < text.size(); ++pos) {
    node = nodes_[*node].Child(text[pos]);
    if (!node) break;
    if (nodes_[*node].token >= 0) found = nodes_[*node].token;
  }
  return found < 0 ? nullptr : &tokens_[static_cast<size_t>(found)];
}

std::vector<AddedTokenFinder::Section> AddedTokenFinder::Find(std::string_view text) const {
  std::vector<Section> sections;
  size_t done = 0;
  for (size_t pos = 0; pos < text.size();) {
    const AddedToken* token = LongestAt(text, pos);
    if (token == nullptr) {
      ++pos;
      continue;
    }
    size_t begin = pos;
    size_t end = pos + token->content.size();
    pos = end;
    if (token->single_word && TouchesWord(text, begin, end)) continue;
    if (token->lstrip) {
      while (begin > done && IsSpace(Utf8Decode(text, Previous(text, begin)))) {
        begin = Previous(text, begin);
      }
    }
    if (token->rstrip) {
      while (end < text.size() && IsSpace(Utf8Decode(text, end))) end += Utf8Length(text[end]);
      pos = end;
    }
    if (done < begin) sections.push_back({done, begin, std::nullopt});
    sections.push_back({begin, end, token->id});
    done = end;
  }
  if (done < text.size()) sections.push_back({done, text.size(), std::nullopt});
  return sections;
}

}  // namespace hif8
