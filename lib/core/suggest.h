// "Did you mean": the known names nearest to a mistyped one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hif8 {

// Returns known names within a third of `word`'s length in edits (insert, delete, substitute,
// swap), nearest first, at most `most`.
std::vector<std::string> NearMatches(std::string_view word, std::span<const std::string> known,
                                     size_t most = 3);

// Returns "did you mean 'percentile'?" when there is a near match, else "known: a, b, c" (at most
// 20 names).
std::string SuggestionHint(std::string_view word, std::span<const std::string> known);

}  // namespace hif8
