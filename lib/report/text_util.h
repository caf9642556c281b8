// Text for people: numbers, names of any length, characters that terminals and files can take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/report/report.h"

namespace hif8 {

// Two decimals; "inf" when exact, "-" when not measured.
std::string DecibelText(const Measured& value);
// Returns a share as percent, three significant digits: "0.0123 %", "99.2 %", "0 %".
std::string PercentText(const Measured& share);
// Six significant digits.
std::string NumberText6(const Measured& value);
// Returns the shortest text that reads back to the same double; "inf"; empty when not measured.
std::string ExactText(const Measured& value);
// Returns "1.2 MB" (powers of 1000); "-" when unknown.
std::string BytesText(const std::optional<int64_t>& bytes);

// Columns that the text takes on a terminal, counting one for every code point.
size_t DisplayWidth(std::string_view text);
// At most `width` columns (at least 3): the middle is replaced by "…" (or "~" when not `unicode`).
std::string ShortenMiddle(const std::string& text, size_t width, bool unicode);
// Lines of equally many cells as columns two spaces apart: the first `text` ones to the left, the
// others to the right.
std::string AlignedColumns(const std::vector<std::vector<std::string>>& lines, size_t text);
// Makes any text safe to show, as names come from files and may hold anything: invalid UTF-8
// becomes U+FFFD; control, bidirectional and invisible characters become \u202e or \U000e0001.
std::string CleanText(std::string_view text);
// Does the same line by line: line breaks stay.
std::string CleanLines(std::string_view text);
// Returns the same JSON document with those characters as JSON's own escapes.
std::string CleanJson(std::string_view json);
// For XML and HTML, text and attributes in double quotes: & < > " become references.
std::string EscapeMarkup(std::string_view text);

}  // namespace hif8
