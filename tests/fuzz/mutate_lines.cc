#include <array>
#include <utility>
#include <vector>

#include "tests/fuzz/mutate_forms.h"

namespace hif8 {
namespace {

constexpr std::array<std::string_view, 30> kWords = {"0",
                                                     "-1",
                                                     "1",
                                                     "64",
                                                     "4096",
                                                     "9223372036854775807",
                                                     "-9223372036854775808",
                                                     "1e999",
                                                     "1e-45",
                                                     "0.5",
                                                     ".nan",
                                                     ".inf",
                                                     "-.inf",
                                                     "~",
                                                     "null",
                                                     "true",
                                                     "false",
                                                     "\"\"",
                                                     "''",
                                                     "[]",
                                                     "{}",
                                                     "- ",
                                                     "{",
                                                     "}",
                                                     "[",
                                                     "]",
                                                     "&a",
                                                     "*a",
                                                     "|",
                                                     "!!binary"};

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

// Another value behind the line's last blank, or in the place of the whole line.
void ChangeValue(std::string* line, Dice* dice) {
  const size_t blank = line->rfind(' ');
  if (blank != std::string::npos && !dice->OneIn(8)) line->resize(blank + 1);
  line->append(kWords[dice->Below(kWords.size())]);
}

void ChangeIndent(std::string* line, Dice* dice) {
  if (dice->OneIn(2) || !line->starts_with("  ")) {
    line->insert(0, "  ");
  } else {
    line->erase(0, 2);
  }
}

}  // namespace

std::string MutateLines(const std::string& text, Dice* dice) {
  std::vector<std::string> lines = Split(text);
  const size_t at = dice->Below(lines.size());
  const size_t other = dice->Below(lines.size());
  const auto position = lines.begin() + static_cast<std::ptrdiff_t>(at);
  switch (dice->Below(8)) {
    case 0:
      lines.erase(position);
      break;
    case 1:
      std::swap(lines[at], lines[other]);
      break;
    case 2:
      lines.insert(position, std::string(lines[other]));
      break;
    case 3:
      ChangeIndent(&lines[at], dice);
      break;
    case 4: {  // the key of one line with the value of another
      const size_t colon = lines[at].find(':');
      const size_t from = lines[other].find(':');
      if (colon != std::string::npos && from != std::string::npos) {
        lines[at] = lines[at].substr(0, colon) + lines[other].substr(from);
      }
      break;
    }
    case 5:
    case 6:
      ChangeValue(&lines[at], dice);
      break;
    default:
      lines[at] = MutateBytes(lines[at]);
  }
  std::string result;
  for (size_t i = 0; i < lines.size(); ++i) result += (i == 0 ? "" : "\n") + lines[i];
  return result;
}

}  // namespace hif8
