#include "lib/model/tokenizer/split_regex.h"

#include <pcre2.h>

#include <array>
#include <cctype>
#include <utility>

#include "lib/core/error.h"
#include "lib/model/tokenizer/utf8.h"

namespace hif8 {
namespace {

using CompileContext =
    std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)>;
using MatchContext = std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)>;
using MatchData = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;

pcre2_code* CompilePcre(const std::string& pattern, int* error, PCRE2_SIZE* offset) {
  const CompileContext context(pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 100);
  // Ruby's ^ and $ always mean lines.
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  return pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, error,
                       offset, context.get());
}

bool Compiles(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = CompilePcre(pattern, &error, &offset);
  pcre2_code_free(code);
  return code != nullptr;
}

// Walks through a pattern once, copying it with the changes described at each step.
class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : in_(pattern), where_(where) {}

  std::string Run() {
    while (pos_ < in_.size()) {
      const char c = in_[pos_];
      if (c == '\\') {
        Escape(false);
      } else if (c == '[') {
        Class();
      } else if (c == '(' && in_.substr(pos_, 2) == "(?") {
        Group();
      } else if (c == '{' && PossessiveInterval()) {
        // Ruby: an interval repeated; PCRE2: a possessive interval.
        throw Refuse("an interval followed by + ('{n,m}+')");
      } else {
        out_ += c;
        ++pos_;
      }
    }
    return std::move(out_);
  }

 private:
  Error Refuse(const std::string& what) const {
    return ModelError("the pattern '" + std::string(in_) + "' uses " + what +
                          ", which is not supported (character " + std::to_string(pos_) + ")",
                      "write the data as token ids instead", where_);
  }

  bool PossessiveInterval() const {
    const size_t end = in_.find_first_not_of("0123456789,", pos_ + 1);
    return end != std::string_view::npos && end > pos_ + 1 && in_[end] == '}' &&
           in_.substr(end + 1, 1) == "+";
  }

  // (?i: and the like mean the same in both, but Ruby's m is PCRE2's s.
  void Group() {
    const size_t end = in_.find_first_not_of("imx-", pos_ + 2);
    const std::string_view flags =
        end == std::string_view::npos ? "" : in_.substr(pos_ + 2, end - pos_ - 2);
    const bool is_flags = !flags.empty() && (in_[end] == ':' || in_[end] == ')');
    out_ += "(?";
    pos_ += 2;
    if (!is_flags) return;
    for (const char flag : flags) out_ += flag == 'm' ? 's' : flag;
    pos_ = end;
  }

  // \s, \d, \w are Unicode's White_Space, Nd and word characters; PCRE2's \s has U+180E besides,
  // and its \w lacks marks. \h is a hexadecimal digit, not a horizontal space.
  void Escape(bool in_class) {
    if (pos_ + 1 >= in_.size()) throw Refuse("a backslash at its end");
    const char c = in_[pos_ + 1];
    static constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
    if (c == 'p' || c == 'P') return Property();
    pos_ += 2;
    if (c == 's' || c == 'S') {
      out_ += c == 's' ? R"(\p{White_Space})" : R"(\P{White_Space})";
    } else if (c == 'w') {
      out_ += in_class ? std::string(kWord) : "[" + std::string(kWord) + "]";
    } else if (c == 'W' && !in_class) {
      out_ += "[^" + std::string(kWord) + "]";
    } else if (c == 'h') {
      out_ += in_class ? "0-9A-Fa-f" : "[0-9A-Fa-f]";
    } else if (c == 'H' && !in_class) {
      out_ += "[^0-9A-Fa-f]";
    } else if (c == 'u') {
      CodePoint();
    } else if (std::string_view("WHKgkMC").find(c) != std::string_view::npos) {
      pos_ -= 2;
      throw Refuse(std::string("\\") + c);
    } else {
      out_ += '\\';
      out_ += c;
    }
  }

  void CodePoint() {
    const std::string_view digits = in_.substr(pos_, 4);
    if (digits.size() < 4 ||
        digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
      throw Refuse("\\u without four hexadecimal digits");
    }
    out_ += "\\x{" + std::string(digits) + "}";
    pos_ += 4;
  }

  // A script's name means Script here and Script_Extensions in PCRE2.
  void Property() {
    const size_t end = in_.find('}', pos_);
    if (end == std::string_view::npos || in_.substr(pos_ + 2, 1) != "{") {
      throw Refuse("\\p without {...}");
    }
    const std::string name(in_.substr(pos_ + 3, end - pos_ - 3));
    const std::string script = "\\" + std::string(1, in_[pos_ + 1]) + "{sc:" + name + "}";
    out_ += Compiles(script) ? script : std::string(in_.substr(pos_, end + 1 - pos_));
    pos_ = end + 1;
  }

  // Inside [...] Ruby nests classes and intersects them with &&; PCRE2 takes both for characters.
  void Class() {
    out_ += in_[pos_++];
    if (in_.substr(pos_, 1) == "^") out_ += in_[pos_++];
    for (bool first = true; pos_ < in_.size(); first = false) {
      const char c = in_[pos_];
      if (c == '\\') {
        Escape(true);
        continue;
      }
      if (in_.substr(pos_, 2) == "&&") throw Refuse("an intersection of classes (&&)");
      if (c == '[') {
        const size_t end = in_.find(":]", pos_);
        if (in_.substr(pos_, 2) != "[:" || end == std::string_view::npos) {
          throw Refuse("a class inside a class");
        }
        out_ += in_.substr(pos_, end + 2 - pos_);
        pos_ = end + 2;
        continue;
      }
      out_ += c;
      ++pos_;
      if (c == ']' && !first) return;
    }
    throw Refuse("a class without end");
  }

  std::string_view in_;
  const std::string& where_;
  size_t pos_ = 0;
  std::string out_;
};

const pcre2_code* Code(const std::shared_ptr<const void>& code) {
  return static_cast<const pcre2_code*>(code.get());
}

// One search from `begin`; false when there is no further match.
int Search(const pcre2_code* code, std::string_view text, size_t begin, const MatchContext& context,
           const MatchData& match) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const int result = pcre2_match(code, subject, text.size(), begin, PCRE2_NO_UTF_CHECK, match.get(),
                                 context.get());
  if (result != PCRE2_ERROR_JIT_STACKLIMIT) return result;
  // Machine code has a small stack; the interpreter uses the heap.
  return pcre2_match(code, subject, text.size(), begin, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                     match.get(), context.get());
}

}  // namespace

std::string TranslateOniguruma(std::string_view pattern, const std::string& where) {
  return Translator(pattern, where).Run();
}

SplitRegex::SplitRegex(std::string_view pattern, std::string where)
    : pattern_(pattern), where_(std::move(where)) {
  Compile(TranslateOniguruma(pattern, where_));
}

SplitRegex SplitRegex::Literal(std::string_view text, std::string where) {
  SplitRegex regex;
  regex.pattern_ = text;
  regex.where_ = std::move(where);
  std::string pcre;
  for (const char c : text) {
    // A backslash before a letter, a digit or a non-ASCII character would be a mistake.
    if (static_cast<signed char>(c) > 0 && std::isalnum(static_cast<unsigned char>(c)) == 0) {
      pcre += '\\';
    }
    pcre += c;
  }
  regex.Compile(pcre);
  return regex;
}

void SplitRegex::Compile(const std::string& pcre) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = CompilePcre(pcre, &error, &offset);
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    throw ModelError("'" + pattern_ + "' is not a regular expression that is supported: " +
                         reinterpret_cast<const char*>(message.data()) + " at position " +
                         std::to_string(offset) + " of '" + pcre + "'",
                     "write the data as token ids instead", where_);
  }
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it matching is slower, not different
  code_ = std::shared_ptr<const void>(
      code, [](const void* p) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(p))); });
}

std::vector<MatchSpan> SplitRegex::Spans(std::string_view text) const {
  std::vector<MatchSpan> spans;
  const MatchData match(pcre2_match_data_create_from_pattern(Code(code_), nullptr),
                        &pcre2_match_data_free);
  const MatchContext context(pcre2_match_context_create(nullptr), &pcre2_match_context_free);
  pcre2_set_heap_limit(context.get(), 256 * 1024);  // KiB
  const PCRE2_SIZE* at = pcre2_get_ovector_pointer(match.get());
  size_t done = 0;   // up to here the text is in `spans`
  bool any = false;  // a match ended at `done`
  for (size_t from = 0; from <= text.size();) {
    const int result = Search(Code(code_), text, from, context, match);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      throw ModelError("the pattern '" + pattern_ + "' takes too long on this text (PCRE2 error " +
                           std::to_string(result) + ")",
                       "write the data as token ids instead", where_);
    }
    const size_t begin = at[0];
    const size_t end = at[1];
    if (begin == end && any && end == done) {
      from += from < text.size() ? Utf8Length(text[from]) : 1;
      continue;
    }
    if (done < begin) spans.push_back({done, begin, false});
    spans.push_back({begin, end, true});
    from = done = end;
    any = true;
  }
  if (done < text.size()) spans.push_back({done, text.size(), false});
  return spans;
}

}  // namespace hif8
