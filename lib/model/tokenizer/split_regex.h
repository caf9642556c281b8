// Regular expressions of tokenizer.json. They are written for Oniguruma (Ruby's syntax) and run
// here by PCRE2; where the two read the same text differently the pattern is translated, and what
// cannot be translated is refused.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hif8 {

// A part of a text, in bytes, and whether the pattern matched it.
struct MatchSpan {
  size_t begin;
  size_t end;
  bool matched;
};

// Returns the PCRE2 spelling of an Oniguruma pattern. Throws kModel for constructs that have none.
std::string TranslateOniguruma(std::string_view pattern, const std::string& where);

class SplitRegex {
 public:
  // `pattern` is Oniguruma's. Throws kModel when it is refused or is no regular expression.
  SplitRegex(std::string_view pattern, std::string where);
  // Matches `text` itself.
  static SplitRegex Literal(std::string_view text, std::string where);

  // Returns all of `text` in order, matches and what lies between them; a match may be empty.
  // Successive matches as Oniguruma's iterator finds them: no empty match right behind another
  // match. Throws kModel when matching takes absurdly long.
  std::vector<MatchSpan> Spans(std::string_view text) const;

 private:
  SplitRegex() = default;
  void Compile(const std::string& pcre);

  std::string pattern_;
  std::string where_;
  std::shared_ptr<const void> code_;
};

}  // namespace hif8
