// Regular expressions over names (Perl syntax, PCRE2). A pattern matches when it is found anywhere
// in the name.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hif8 {

class Pattern {
 public:
  // Throws a usage error that shows the position of a syntax error. `where` is passed on to it and
  // to the errors of matching.
  explicit Pattern(std::string text, std::string where = {});

  // Tells whether the pattern is found in `name`. Throws kUsage, naming both, when the search takes
  // more steps than all names together may take: the budget belongs to the pattern and its copies,
  // and grows by a little with each name.
  bool Matches(std::string_view name) const;
  // Returns the first group's text of the first match; nothing when there is no match or no such
  // group. Throws as Matches() does.
  std::optional<std::string> FirstGroup(std::string_view name) const;
  const std::string& text() const { return text_; }

 private:
  class Compiled;

  std::string text_;
  std::string where_;
  std::shared_ptr<const Compiled> compiled_;
};

// Returns the text of a pattern that matches that name only.
std::string ExactPattern(const std::string& name);

}  // namespace hif8
