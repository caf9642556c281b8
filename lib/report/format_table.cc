#include "lib/report/format_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/pattern.h"
#include "lib/report/selection.h"
#include "lib/report/text_util.h"

namespace hif8 {
namespace {

using Key = std::pair<std::string, std::string>;  // layer, operand

constexpr std::array<std::string_view, 2> kOperators = {"=", "~"};

bool Holds(const ComparisonReport& row, const Comparison& condition) {
  const std::string* value = condition.left == "layer"     ? &row.layer
                             : condition.left == "operand" ? &row.operand
                             : condition.left == "format"  ? &row.format
                                                           : nullptr;
  if (value == nullptr || condition.op.empty()) {
    throw UsageError("'" + condition.left + condition.op + condition.right +
                         "' is no condition on compared formats",
                     "known: layer, operand and format, with = or ~");
  }
  return condition.op == "=" ? *value == condition.right : Pattern(condition.right).Matches(*value);
}

// The selected rows, by layer and operand in the report's order, and the formats in theirs.
struct Selected {
  std::vector<Key> keys;
  std::vector<std::string> formats;
  std::map<Key, std::map<std::string, Measured>> sqnr;
};

Selected Select(const Report& report, std::span<const std::string> where) {
  std::vector<Comparison> conditions;
  conditions.reserve(where.size());
  for (const std::string& text : where) conditions.push_back(SplitComparison(text, kOperators));
  Selected selected;
  for (const ComparisonReport& row : report.comparisons) {
    const bool holds = std::all_of(conditions.begin(), conditions.end(),
                                   [&](const Comparison& c) { return Holds(row, c); });
    if (!holds) continue;
    const Key key{row.layer, row.operand};
    if (!selected.sqnr.contains(key)) selected.keys.push_back(key);
    auto& formats = selected.formats;
    if (std::find(formats.begin(), formats.end(), row.format) == formats.end()) {
      formats.push_back(row.format);
    }
    selected.sqnr[key][row.format] = row.sqnr_db;
  }
  return selected;
}

using Line = std::vector<std::string>;

Line MakeLine(const Key& key, const std::vector<std::string>& formats,
              const std::map<std::string, Measured>& sqnr) {
  Line line = {CleanText(key.first), key.second};
  double best = -std::numeric_limits<double>::infinity();
  for (const auto& [format, value] : sqnr) best = std::max(best, value.value_or(best));
  for (const std::string& format : formats) {
    const auto at = sqnr.find(format);
    const Measured value = at == sqnr.end() ? Measured() : at->second;
    line.push_back(DecibelText(value) + (value && *value == best ? "*" : " "));
  }
  return line;
}

// Means over the layers of one operand, of the finite values.
std::map<std::string, Measured> Means(const Selected& selected, const std::string& operand) {
  std::map<std::string, Measured> means;
  for (const std::string& format : selected.formats) {
    double sum = 0;
    size_t count = 0;
    for (const auto& [key, sqnr] : selected.sqnr) {
      const auto at = sqnr.find(format);
      if (key.second != operand || at == sqnr.end() || !at->second) continue;
      if (!std::isfinite(*at->second)) continue;
      sum += *at->second;
      ++count;
    }
    if (count > 0) means[format] = sum / static_cast<double>(count);
  }
  return means;
}

}  // namespace

std::string FormatTable(const Report& report, std::span<const std::string> where) {
  if (report.comparisons.empty()) {
    throw UsageError("the report compares no formats",
                     "run hif8-calibrate with --compare all, or with the names of formats");
  }
  const Selected selected = Select(report, where);
  std::vector<Line> lines = {{"layer", "operand"}};
  for (const std::string& format : selected.formats) lines.front().push_back(format + " ");
  for (const Key& key : selected.keys) {
    lines.push_back(MakeLine(key, selected.formats, selected.sqnr.at(key)));
  }
  for (const char* operand : {"weight", "activation", "k", "v", "output"}) {
    const std::map<std::string, Measured> means = Means(selected, operand);
    if (!means.empty()) lines.push_back(MakeLine({"(mean)", operand}, selected.formats, means));
  }
  return AlignedColumns(lines, 2) + "\nSQNR in dB; * marks the best of a line\n";
}

}  // namespace hif8
