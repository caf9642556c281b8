// Values of a description of a model family: constants, keys of config.json, and what is computed
// from them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hif8 {

// A value: nothing (a key that config.json lacks), one word or number, or a list of them. True and
// false are 1 and 0.
struct ConfigValue {
  using Item = std::variant<double, std::string>;

  std::vector<Item> items;
  bool list = false;

  ConfigValue() = default;
  explicit ConfigValue(Item item) : items({std::move(item)}) {}
  bool missing() const { return items.empty(); }
  std::string Text() const;  // as people see it
};

// Holds what an expression may refer to.
struct ExpressionScope {
  std::function<ConfigValue(std::string_view key)> config;  // a key of config.json, "a.b" below "a"
  std::function<bool(std::string_view word)> is_key;        // whether a word is a description's key
  std::function<ConfigValue(std::string_view word)> key;    // and its value
  int64_t blocks = 0;                                       // length of lists over blocks
};

// Grammar, weakest operator first:
//   a | b      the first of both that config.json has
//   a + b      also a * b, a / b; over lists element by element
//   $key       of config.json; $a.b inside the object a
//   word       another key of the description, or the word itself
//   sqrt(x)  not(x)  if(condition, a, b)
//   every(n, a, b)   over blocks: a in the last one of every n, else b
//   first(n, a, b)   over blocks: a in the first one of every n, else b
//   before(n, a, b)  over blocks: a in the first n, else b
//   at(list)         over blocks: 1 in those that the list numbers, else 0
//   choose(list, a, b)  over a list of 0 and 1: a for 0, b for 1
//   equals(list, word, ...)  over a list: 1 where it has one of the words, else 0
class Expression {
 public:
  // Throws kUsage at `where` for what is no expression.
  static Expression Parse(const std::string& text, const std::string& where);

  ConfigValue Evaluate(const ExpressionScope& scope) const;
  const std::string& text() const { return text_; }
  const std::string& where() const { return where_; }

  struct Node;  // of the syntax tree

 private:
  std::string text_;
  std::string where_;
  std::shared_ptr<const Node> root_;
};

}  // namespace hif8
