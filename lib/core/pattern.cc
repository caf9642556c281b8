#include "lib/core/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <cctype>

#include <array>
#include <utility>

#include "lib/core/error.h"

namespace hif8 {
namespace {

using MatchData = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;

int Run(const void* code, std::string_view name, const MatchData& match) {
  return pcre2_match(static_cast<const pcre2_code*>(code),
                     reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0, 0, match.get(),
                     nullptr);
}

MatchData NewMatchData(const void* code) {
  return {pcre2_match_data_create_from_pattern(static_cast<const pcre2_code*>(code), nullptr),
          &pcre2_match_data_free};
}

}  // namespace

Pattern::Pattern(std::string text, const std::string& where) : text_(std::move(text)) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), 0,
                                   &error, &offset, nullptr);
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    throw UsageError("'" + text_ + "' is not a regular expression: " +
                         reinterpret_cast<const char*>(message.data()) + " at position " +
                         std::to_string(offset + 1),
                     "escape special characters with a backslash", where);
  }
  code_ =
      std::shared_ptr<void>(code, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); });
}

bool Pattern::Matches(std::string_view name) const {
  return Run(code_.get(), name, NewMatchData(code_.get())) >= 0;
}

std::optional<std::string> Pattern::FirstGroup(std::string_view name) const {
  const MatchData match = NewMatchData(code_.get());
  if (Run(code_.get(), name, match) < 2) return std::nullopt;
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
