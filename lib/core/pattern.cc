#include "lib/core/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <cctype>

#include <array>
#include <atomic>
#include <utility>

#include "lib/core/error.h"

namespace hif8 {
namespace {

// Steps are items of the pattern that are tried at a place of the name. A usual pattern takes tens
// to thousands of them on a name; all names together may take this many, about a second's work,
// plus some for each name, as models have any number of layers.
constexpr int64_t kFirstSteps = 20'000'000;
constexpr int64_t kStepsPerName = 10'000;

using MatchData = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;
using MatchContext = std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)>;

// Called by the matcher before each step, as the pattern is compiled with PCRE2_AUTO_CALLOUT.
int TakeStep(pcre2_callout_block* /*block*/, void* steps) {
  const int64_t left = static_cast<std::atomic<int64_t>*>(steps)->fetch_sub(1);
  return left > 0 ? 0 : PCRE2_ERROR_MATCHLIMIT;
}

}  // namespace

// A compiled pattern and what is left of its budget.
class Pattern::Compiled {
 public:
  Compiled(const std::string& text, const std::string& where) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                              PCRE2_AUTO_CALLOUT, &error, &offset, nullptr));
    if (code_ == nullptr) {
      std::array<PCRE2_UCHAR, 256> message{};
      pcre2_get_error_message(error, message.data(), message.size());
      throw UsageError("'" + text + "' is not a regular expression: " +
                           reinterpret_cast<const char*>(message.data()) + " at position " +
                           std::to_string(offset + 1),
                       "escape special characters with a backslash", where);
    }
  }

  MatchData NewMatchData() const {
    return {pcre2_match_data_create_from_pattern(code_.get(), nullptr), &pcre2_match_data_free};
  }

  // Returns PCRE2's result: negative for no match and for errors.
  int Run(std::string_view name, const MatchData& match) const {
    const MatchContext context(pcre2_match_context_create(nullptr), &pcre2_match_context_free);
    steps_ += kStepsPerName;
    pcre2_set_callout(context.get(), TakeStep, &steps_);
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0, 0,
                       match.get(), context.get());
  }

 private:
  std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code_{nullptr, &pcre2_code_free};
  mutable std::atomic<int64_t> steps_ = kFirstSteps;
};

namespace {

// Tells a match from none; throws when the search was given up.
bool Found(int result, const std::string& text, std::string_view name, const std::string& where) {
  if (result >= 0) return true;
  if (result == PCRE2_ERROR_NOMATCH) return false;
  throw UsageError("the pattern '" + text + "' takes too long to match: given up at '" +
                       std::string(name) + "' (PCRE2 error " + std::to_string(result) + ")",
                   "write it without repetitions inside of repetitions: a+ instead of (a+)+",
                   where);
}

}  // namespace

Pattern::Pattern(std::string text, std::string where)
    : text_(std::move(text)),
      where_(std::move(where)),
      compiled_(std::make_shared<const Compiled>(text_, where_)) {}

bool Pattern::Matches(std::string_view name) const {
  return Found(compiled_->Run(name, compiled_->NewMatchData()), text_, name, where_);
}

std::optional<std::string> Pattern::FirstGroup(std::string_view name) const {
  const MatchData match = compiled_->NewMatchData();
  const int result = compiled_->Run(name, match);
  if (!Found(result, text_, name, where_) || result < 2) return std::nullopt;
  const PCRE2_SIZE* at = pcre2_get_ovector_pointer(match.get());
  if (at[2] == PCRE2_UNSET) return std::nullopt;
  return std::string(name.substr(at[2], at[3] - at[2]));
}

std::string ExactPattern(const std::string& name) {
  std::string pattern = "^";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isalnum(byte) == 0 && c != '_') pattern += '\\';
    pattern += c;
  }
  return pattern + "$";
}

}  // namespace hif8
