#include "lib/core/suggest.h"

#include <algorithm>
#include <utility>

namespace hif8 {
namespace {

// Optimal string alignment distance: Levenshtein plus swaps of neighbours.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + cost});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::vector<std::string> NearMatches(std::string_view word, std::span<const std::string> known,
                                     size_t most) {
  // A very long word is no typing error, and its distance would cost quadratic time.
  if (word.size() > 256) return {};
  const size_t limit = std::max<size_t>(1, word.size() / 3);
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& name : known) {
    const size_t longer = std::max(name.size(), word.size());
    if (longer - std::min(name.size(), word.size()) > limit) continue;
    const size_t distance = EditDistance(word, name);
    if (distance <= limit) near.emplace_back(distance, name);
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (const auto& [distance, name] : near) {
    if (names.size() == most) break;
    names.push_back(name);
  }
  return names;
}

std::string SuggestionHint(std::string_view word, std::span<const std::string> known) {
  const std::vector<std::string> near = NearMatches(word, known, 1);
  if (!near.empty()) return "did you mean '" + near.front() + "'?";
  std::string text = "known: ";
  for (size_t i = 0; i < known.size(); ++i) {
    if (i == 20) return text + ", ...";
    text += (i > 0 ? ", " : "") + known[i];
  }
  return text;
}

}  // namespace hif8
