#include "lib/model/safetensors/expression.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/number_text.h"
#include "lib/core/suggest.h"

namespace hif8 {

struct Expression::Node {
  enum class Kind { kNumber, kWord, kConfig, kCall, kOperator } kind = Kind::kWord;
  std::string text;  // word, key, name of the function or operator
  double number = 0;
  std::vector<Node> children;
};

namespace {

using Node = Expression::Node;

struct Function {
  std::string_view name;
  size_t least, most;  // arguments
};
constexpr size_t kMany = 16;
constexpr std::array<Function, 9> kFunctions = {{{"sqrt", 1, 1},
                                                 {"not", 1, 1},
                                                 {"if", 3, 3},
                                                 {"every", 3, 3},
                                                 {"first", 3, 3},
                                                 {"before", 3, 3},
                                                 {"at", 1, 1},
                                                 {"choose", 3, 3},
                                                 {"equals", 2, kMany}}};

bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

class Parser {
 public:
  Parser(const std::string& text, const std::string& where) : text_(text), where_(where) {}

  Node Parse() {
    Node node = Binary(0);
    if (!AtEnd()) Fail("'" + text_.substr(at_) + "' is left over");
    return node;
  }

 private:
  static constexpr std::array<std::string_view, 3> kOperators = {"|", "+", "*/"};
  static constexpr int kDeepest = 32;

  [[noreturn]] void Fail(const std::string& message, const std::string& hint) const {
    throw UsageError("'" + text_ + "': " + message, hint, where_);
  }
  [[noreturn]] void Fail(const std::string& message) const {
    Fail(message, "a value is a constant, $key of config.json, or built from them");
  }
  bool AtEnd() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ == text_.size();
  }
  char Next() { return AtEnd() ? '\0' : text_[at_]; }
  bool Take(char c) {
    if (Next() != c) return false;
    ++at_;
    return true;
  }

  Node Binary(size_t level) {
    if (level == kOperators.size()) return Atom();
    Node left = Binary(level + 1);
    while (!AtEnd() && kOperators[level].find(Next()) != std::string_view::npos) {
      const std::string op(1, text_[at_++]);
      Node right = Binary(level + 1);
      left = {Node::Kind::kOperator, op, 0, {std::move(left), std::move(right)}};
    }
    return left;
  }

  Node Atom() {
    if (++depth_ > kDeepest) Fail("too many brackets");
    Node node;
    if (Take('(')) {
      node = Binary(0);
      if (!Take(')')) Fail("a closing bracket is missing");
    } else if (Take('$')) {
      node = {Node::Kind::kConfig, Word(), 0, {}};
    } else {
      node.text = Word();
      if (Next() == '(') {
        node.kind = Node::Kind::kCall;
        Arguments(&node);
      } else if (node.text == "true" || node.text == "false") {
        node.kind = Node::Kind::kNumber;
        node.number = node.text == "true" ? 1 : 0;
      } else {
        const char* end = node.text.data() + node.text.size();
        const auto [stop, error] = std::from_chars(node.text.data(), end, node.number);
        if (error == std::errc() && stop == end && std::isfinite(node.number)) {
          node.kind = Node::Kind::kNumber;
        }
      }
    }
    --depth_;
    return node;
  }

  // Letters, digits, _ and dots; a sign behind the e of a number.
  std::string Word() {
    AtEnd();
    const size_t begin = at_;
    const bool number = at_ < text_.size() && (std::isdigit(text_[at_]) != 0 || text_[at_] == '-');
    if (at_ < text_.size() && text_[at_] == '-') ++at_;
    while (at_ < text_.size() &&
           (IsWordCharacter(text_[at_]) ||
            (number && (text_[at_] == '-' || text_[at_] == '+') && text_[at_ - 1] == 'e'))) {
      ++at_;
    }
    if (at_ == begin) {
      Fail(at_ == text_.size() ? "a value is missing at the end"
                               : "a value is missing before '" + text_.substr(at_) + "'");
    }
    return text_.substr(begin, at_ - begin);
  }

  void Arguments(Node* node) {
    const auto found = std::find_if(kFunctions.begin(), kFunctions.end(),
                                    [&](const Function& f) { return f.name == node->text; });
    if (found == kFunctions.end()) {
      std::vector<std::string> known;
      known.reserve(std::size(kFunctions));
      for (const Function& f : kFunctions) known.emplace_back(f.name);
      Fail("there is no function '" + node->text + "'", SuggestionHint(node->text, known));
    }
    Take('(');
    do {
      node->children.push_back(Binary(0));
    } while (Take(','));
    if (!Take(')')) Fail("a closing bracket is missing");
    if (node->children.size() < found->least || node->children.size() > found->most) {
      Fail(node->text + "() takes " + std::to_string(found->least) + " values, found " +
           std::to_string(node->children.size()));
    }
  }

  const std::string& text_;
  const std::string& where_;
  size_t at_ = 0;
  int depth_ = 0;
};

class Evaluator {
 public:
  Evaluator(const Expression& expression, const ExpressionScope& scope)
      : expression_(expression), scope_(scope) {}

  ConfigValue Run(const Node& node) const {
    switch (node.kind) {
      case Node::Kind::kNumber:
        return ConfigValue(node.number);
      case Node::Kind::kConfig:
        return scope_.config(node.text);
      case Node::Kind::kWord:
        return scope_.is_key(node.text) ? scope_.key(node.text) : ConfigValue(node.text);
      case Node::Kind::kOperator:
        return Operator(node);
      case Node::Kind::kCall:
        return Call(node);
    }
    return {};
  }

 private:
  double Number(const ConfigValue::Item& item) const {
    if (const double* number = std::get_if<double>(&item)) return *number;
    throw UsageError("'" + expression_.text() + "': expected a number, found '" +
                         std::get<std::string>(item) + "'",
                     "is this a key of config.json? it needs a $ before its name",
                     expression_.where());
  }
  double Scalar(const ConfigValue& value) const {
    if (value.items.size() == 1 && !value.list) return Number(value.items.front());
    throw UsageError("'" + expression_.text() + "': expected one number, found " + value.Text(),
                     "lists are taken by at(), choose() and equals()", expression_.where());
  }

  ConfigValue Operator(const Node& node) const {
    const ConfigValue a = Run(node.children[0]);
    if (node.text == "|") return a.missing() ? Run(node.children[1]) : a;
    const ConfigValue b = Run(node.children[1]);
    if (a.missing() || b.missing()) return {};
    const size_t n = std::max(a.items.size(), b.items.size());
    if ((a.list && a.items.size() != n) || (b.list && b.items.size() != n)) {
      throw UsageError("'" + expression_.text() + "': lists of different length",
                       "both sides of an operator have one entry per block", expression_.where());
    }
    ConfigValue result;
    result.list = a.list || b.list;
    for (size_t i = 0; i < n; ++i) {
      const double x = Number(a.items[a.list ? i : 0]);
      const double y = Number(b.items[b.list ? i : 0]);
      result.items.emplace_back(node.text == "+" ? x + y : node.text == "*" ? x * y : x / y);
    }
    return result;
  }

  ConfigValue Call(const Node& node) const {
    if (node.text == "if") {
      const ConfigValue condition = Run(node.children[0]);
      const bool holds = !condition.missing() && Scalar(condition) != 0;
      return Run(node.children[holds ? 1 : 2]);
    }
    std::vector<ConfigValue> arguments;
    for (const Node& child : node.children) {
      arguments.push_back(Run(child));
      if (arguments.back().missing()) return {};
    }
    const auto over = [&](const ConfigValue& list, const auto& f) {
      ConfigValue result;
      result.list = list.list;
      for (const ConfigValue::Item& item : list.items) result.items.push_back(f(item));
      return result;
    };
    const auto truth = [](bool b) { return ConfigValue::Item(b ? 1.0 : 0.0); };
    const ConfigValue& first = arguments[0];
    if (node.text == "sqrt") {
      return over(first, [&](const auto& x) { return ConfigValue::Item(std::sqrt(Number(x))); });
    }
    if (node.text == "not") {
      return over(first, [&](const auto& x) { return truth(Number(x) == 0); });
    }
    if (node.text == "choose") {
      return over(first,
                  [&](const auto& x) { return arguments[Number(x) == 0 ? 1 : 2].items.front(); });
    }
    if (node.text == "equals") {
      return over(first, [&](const auto& x) {
        return truth(std::any_of(arguments.begin() + 1, arguments.end(),
                                 [&](const ConfigValue& word) { return word.items.front() == x; }));
      });
    }
    return OverBlocks(node.text, arguments);
  }

  ConfigValue OverBlocks(const std::string& function,
                         const std::vector<ConfigValue>& arguments) const {
    ConfigValue result;
    result.list = true;
    if (function == "at") {
      result.items.assign(static_cast<size_t>(scope_.blocks), 0.0);
      for (const ConfigValue::Item& item : arguments[0].items) {
        const double block = Number(item);
        if (block >= 0 && block < static_cast<double>(scope_.blocks)) {
          result.items[static_cast<size_t>(block)] = 1.0;
        }
      }
      return result;
    }
    const double n = Scalar(arguments[0]);
    if (function != "before" && n < 1) {
      throw UsageError(
          "'" + expression_.text() + "': expected at least 1, found " + arguments[0].Text(),
          function + "() counts blocks", expression_.where());
    }
    for (int64_t i = 0; i < scope_.blocks; ++i) {
      const auto block = static_cast<double>(i);
      const bool holds = function == "before"  ? block < n
                         : function == "first" ? std::fmod(block, n) == 0
                                               : std::fmod(block + 1, n) == 0;
      result.items.push_back(arguments[holds ? 1 : 2].items.front());
    }
    return result;
  }

  const Expression& expression_;
  const ExpressionScope& scope_;
};

}  // namespace

std::string ConfigValue::Text() const {
  if (missing()) return "nothing";
  if (list) return "a list of " + std::to_string(items.size());
  const auto* number = std::get_if<double>(&items.front());
  return number != nullptr ? ShortestText(*number) : "'" + std::get<std::string>(items[0]) + "'";
}

Expression Expression::Parse(const std::string& text, const std::string& where) {
  Expression expression;
  expression.text_ = text;
  expression.where_ = where;
  expression.root_ = std::make_shared<const Node>(Parser(text, where).Parse());
  return expression;
}

ConfigValue Expression::Evaluate(const ExpressionScope& scope) const {
  return Evaluator(*this, scope).Run(*root_);
}

}  // namespace hif8
