#include "lib/report/text_util.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "lib/core/number_text.h"

namespace hif8 {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Length of the valid UTF-8 sequence at the start of `text`, 0 when there is none.
size_t SequenceLength(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(text[i])) return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  // Overlong forms, surrogates and what lies beyond U+10FFFF.
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
      (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) {
    return 0;
  }
  // U+FFFE and U+FFFF are no characters; XML refuses them.
  if (lead == 0xEF && second == 0xBF && static_cast<unsigned char>(text[2]) > 0xBD) return 0;
  return length;
}

bool IsMeasured(const Measured& value) { return value && !std::isnan(*value); }

std::string InfinityText(double value) { return value > 0 ? "inf" : "-inf"; }

}  // namespace

std::string DecibelText(const Measured& value) {
  if (!IsMeasured(value)) return "-";
  return std::isinf(*value) ? InfinityText(*value) : fmt::format("{:.2f}", *value);
}

std::string PercentText(const Measured& share) {
  if (!IsMeasured(share)) return "-";
  const double percent = *share * 100;
  // Never "100 %" for what is less.
  if (percent < 100 && percent > 99.95) return fmt::format("{:.6g} %", percent);
  return fmt::format("{:.3g} %", percent);
}

std::string NumberText6(const Measured& value) {
  if (!IsMeasured(value)) return "-";
  return std::isinf(*value) ? InfinityText(*value) : fmt::format("{:.6g}", *value);
}

std::string ExactText(const Measured& value) {
  if (!IsMeasured(value)) return "";
  if (std::isinf(*value)) return InfinityText(*value);
  return ShortestText(*value);
}

std::string BytesText(const std::optional<int64_t>& bytes) {
  if (!bytes) return "-";
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  auto amount = static_cast<double>(*bytes);
  size_t unit = 0;
  while (amount >= 1000 && unit + 1 < kUnits.size()) {
    amount /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", *bytes) : fmt::format("{:.3g} {}", amount, kUnits[unit]);
}

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  for (const char c : text) width += IsContinuation(c) ? 0 : 1;
  return width;
}

std::string ShortenMiddle(const std::string& text, size_t width, bool unicode) {
  if (DisplayWidth(text) <= width) return text;
  std::vector<size_t> starts;  // of the code points
  for (size_t i = 0; i < text.size(); ++i) {
    if (!IsContinuation(text[i])) starts.push_back(i);
  }
  // The end of a name tells more than its start.
  const size_t shown = width - 1;
  const size_t tail = (shown * 3 + 4) / 5;
  return text.substr(0, starts[shown - tail]) + (unicode ? "…" : "~") +
         text.substr(starts[starts.size() - tail]);
}

std::string AlignedColumns(const std::vector<std::vector<std::string>>& lines, size_t text) {
  std::vector<size_t> widths;
  for (const auto& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], DisplayWidth(line[c]));
  }
  std::string aligned;
  for (const auto& line : lines) {
    std::string row;
    for (size_t c = 0; c < line.size(); ++c) {
      const std::string padding(widths[c] - DisplayWidth(line[c]), ' ');
      row += c < text ? line[c] + padding + "  " : padding + line[c] + "  ";
    }
    row.erase(row.find_last_not_of(' ') + 1);
    aligned += row + "\n";
  }
  return aligned;
}

std::string EscapeMarkup(std::string_view text) {
  static constexpr std::array<std::pair<char, std::string_view>, 4> kReferences = {
      {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}}};
  std::string escaped;
  for (const char c : text) {
    const auto* reference = std::find_if(kReferences.begin(), kReferences.end(),
                                         [c](const auto& pair) { return pair.first == c; });
    if (reference == kReferences.end()) {
      escaped += c;
    } else {
      escaped += reference->second;
    }
  }
  return escaped;
}

namespace {

struct CodePoints {
  uint32_t first;
  uint32_t last;
};

// Unicode 15: general categories Cc, Cf, Zl and Zp, and what Default_Ignorable_Code_Point adds.
constexpr std::array<CodePoints, 27> kInvisible = {
    {{0x0000, 0x001F},   {0x007F, 0x009F},   {0x00AD, 0x00AD},   {0x034F, 0x034F},
     {0x0600, 0x0605},   {0x061C, 0x061C},   {0x06DD, 0x06DD},   {0x070F, 0x070F},
     {0x0890, 0x0891},   {0x08E2, 0x08E2},   {0x115F, 0x1160},   {0x17B4, 0x17B5},
     {0x180B, 0x180F},   {0x200B, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x206F},
     {0x3164, 0x3164},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},
     {0xFFF0, 0xFFFB},   {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x1343F},
     {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}}};

// `sequence` is valid UTF-8 of one code point.
uint32_t CodePoint(std::string_view sequence) {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return lead;
  uint32_t code = lead & (0xFFU >> (sequence.size() + 1));
  for (const char c : sequence.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3F);
  return code;
}

bool IsInvisible(uint32_t code) {
  return std::any_of(kInvisible.begin(), kInvisible.end(), [code](const CodePoints& range) {
    return code >= range.first && code <= range.last;
  });
}

// Calls `invisible(code)` for what cannot be seen, and copies or replaces the rest.
template <typename Invisible>
std::string ReplaceInvisible(std::string_view text, const Invisible& invisible) {
  std::string clean;
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    if (length == 0) {
      clean += kReplacement;
    } else if (const uint32_t code = CodePoint(text.substr(0, length)); IsInvisible(code)) {
      clean += invisible(code);
    } else {
      clean += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return clean;
}

}  // namespace

std::string CleanText(std::string_view text) {
  return ReplaceInvisible(text, [](uint32_t code) {
    return code <= 0xFFFF ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
  });
}

std::string CleanLines(std::string_view text) {
  std::string clean;
  for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
    clean += CleanText(text.substr(0, end)) + "\n";
  }
  return clean + CleanText(text);
}

std::string CleanJson(std::string_view json) {
  return ReplaceInvisible(json, [](uint32_t code) -> std::string {
    if (code < 0x20) return {static_cast<char>(code)};  // white space between values
    if (code <= 0xFFFF) return fmt::format("\\u{:04x}", code);
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF));
  });
}

}  // namespace hif8
