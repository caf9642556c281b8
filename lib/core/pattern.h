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
  // Throws a usage error that shows the position of a syntax error. `where` is passed on to it.
  explicit Pattern(std::string text, const std::string& where = {});

  bool Matches(std::string_view name) const;
  // The first group's text of the first match; nothing when there is no match or no such group.
  std::optional<std::string> FirstGroup(std::string_view name) const;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::shared_ptr<void> code_;
};

// The text of a pattern that matches that name only.
std::string ExactPattern(const std::string& name);

}  // namespace hif8
