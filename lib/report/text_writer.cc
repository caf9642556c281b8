#include <algorithm>
#include <array>
#include <cmath>

#include "lib/report/comparison_table.h"
#include "lib/report/summary.h"
#include "lib/report/text_util.h"
#include "lib/report/writers.h"

namespace hif8 {
namespace {

constexpr size_t kBarCells = 10;
constexpr double kBarDecibel = 40;  // a full bar
constexpr size_t kLeastNameWidth = 24;
constexpr size_t kLeastTextWidth = 8;
constexpr size_t kGap = 2;

std::string Spaces(size_t n) { return std::string(n, ' '); }

// A bar of kBarCells cells.
std::string Bar(const Measured& decibel, bool unicode) {
  static constexpr std::array kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!decibel) return "";
  const double share = std::clamp(*decibel / kBarDecibel, 0.0, 1.0);
  const auto eighths = static_cast<size_t>(std::lround(share * kBarCells * 8));
  std::string bar;
  for (size_t i = 0; i < eighths / 8; ++i) bar += unicode ? "█" : "#";
  if (unicode) return bar + kEighths[eighths % 8];
  return bar + (eighths % 8 >= 4 ? "#" : "");
}

// Colour repeats what the number says.
const char* ColorOf(const Measured& decibel) {
  if (*decibel < 15) return "\033[31m";
  return *decibel < 25 ? "\033[33m" : "\033[32m";
}

struct Table {
  std::vector<const Column*> columns;
  std::vector<std::vector<std::string>> rows;  // the first holds the titles
  std::vector<Measured> main;                  // of the rows but the first
  std::vector<size_t> widths;
};

Table Build(const Report& report, const WriteOptions& options) {
  Table table;
  const std::vector<const LayerReport*> layers = UsualLayers(report, options);
  table.columns = UsualColumns(layers, options);
  table.rows.emplace_back();
  for (const Column* column : table.columns) table.rows[0].push_back(column->title);
  for (const LayerReport* layer : layers) {
    std::vector<std::string> row;
    for (const Column* column : table.columns) {
      row.push_back(CellText(*column, column->get(*layer)));
    }
    table.rows.push_back(std::move(row));
    table.main.push_back(MainSqnr(*layer));
  }
  for (size_t c = 0; c < table.columns.size(); ++c) {
    size_t width = 0;
    for (const auto& row : table.rows) width = std::max(width, DisplayWidth(row[c]));
    table.widths.push_back(width);
  }
  return table;
}

size_t TotalWidth(const Table& table, bool bars) {
  size_t width = bars ? kGap + kBarCells : 0;
  for (const size_t w : table.widths) width += w + kGap;
  return width - kGap;
}

size_t LeastWidth(const Table& table, size_t column) {
  if (table.columns[column]->kind != ColumnKind::kText) return table.widths[column];
  return std::min(table.widths[column],
                  table.columns[column]->name == "layer" ? kLeastNameWidth : kLeastTextWidth);
}

// Makes the text columns narrower, the one with most to give first, until the table fits.
void Shrink(Table& table, size_t width, bool bars) {
  while (TotalWidth(table, bars) > width) {
    size_t widest = 0;
    size_t most = 0;
    for (size_t c = 0; c < table.widths.size(); ++c) {
      const size_t spare = table.widths[c] - LeastWidth(table, c);
      if (spare > most) widest = c;
      most = std::max(most, spare);
    }
    if (most == 0) return;
    table.widths[widest] -= std::min(TotalWidth(table, bars) - width, most);
  }
}

// Narrower text, then fewer columns (the last go first), then no bars.
void Fit(Table& table, size_t width, bool* bars) {
  Shrink(table, width, *bars);
  while (table.columns.size() > 3 && TotalWidth(table, *bars) > width) {
    table.columns.pop_back();
    table.widths.pop_back();
    for (auto& row : table.rows) row.pop_back();
  }
  *bars = *bars && TotalWidth(table, true) <= width;
}

std::string CellInColumn(const Table& table, size_t r, size_t c, bool unicode) {
  const std::string cell = ShortenMiddle(table.rows[r][c], table.widths[c], unicode);
  const std::string padding = Spaces(table.widths[c] - DisplayWidth(cell));
  return table.columns[c]->kind == ColumnKind::kText ? cell + padding : padding + cell;
}

std::string BarInColumn(const Measured& value, const WriteOptions& options) {
  const std::string bar = Bar(value, options.unicode);
  const std::string padding = Spaces(kBarCells - DisplayWidth(bar));
  return (options.color && !bar.empty() ? ColorOf(value) + bar + "\033[0m" : bar) + padding;
}

std::string RowText(const Table& table, size_t r, const WriteOptions& options, bool bars) {
  // Bars stand behind the numbers: before the reason, which closes the line.
  const size_t numbers = table.columns.size() - (table.columns.back()->name == "reason" ? 1 : 0);
  std::string line;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    if (bars && c == numbers) {
      line += (r > 0 ? BarInColumn(table.main[r - 1], options) : Spaces(kBarCells)) + Spaces(kGap);
    }
    line += CellInColumn(table, r, c, options.unicode) + Spaces(kGap);
  }
  if (bars && r > 0 && numbers == table.columns.size()) {
    line += BarInColumn(table.main[r - 1], options);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

// Shorter names, then fewer metrics (a value and its change each; the last go first).
void FitComparison(std::vector<std::vector<std::string>>& lines, const WriteOptions& options) {
  const auto width_of = [&](size_t c) {
    size_t width = 0;
    for (const auto& line : lines) width = std::max(width, DisplayWidth(line[c]));
    return width;
  };
  const size_t least = std::min(width_of(0), kLeastNameWidth);
  const auto rest = [&] {
    size_t width = 0;
    for (size_t c = 1; c < lines.front().size(); ++c) width += width_of(c) + kGap;
    return width;
  };
  while (lines.front().size() > 3 && least + rest() > options.width) {
    for (auto& line : lines) line.resize(line.size() - 2);
  }
  const size_t spare = options.width > rest() ? options.width - rest() : 0;
  for (auto& line : lines) {
    line[0] = ShortenMiddle(line[0], std::max(least, spare), options.unicode);
  }
}

class TextWriter : public ReportWriter {
 public:
  std::string_view name() const override { return "text"; }
  std::string_view description() const override { return "a table for people, worst layer first"; }
  std::string Write(const Report& report, const WriteOptions& options) const override {
    Table table = Build(report, options);
    const bool any = std::any_of(table.main.begin(), table.main.end(),
                                 [](const Measured& m) { return m.has_value(); });
    bool bars = any && options.columns.empty();
    if (options.width > 0) Fit(table, options.width, &bars);
    std::string text;
    for (size_t r = 0; r < table.rows.size(); ++r) {
      const std::string line = RowText(table, r, options, bars);
      text += (r == 0 && options.color ? "\033[1m" + line + "\033[0m" : line) + "\n";
    }
    if (table.rows.size() == 1) text += "(no layer)\n";
    text += "\n";
    for (const std::string& line : SummaryLines(report)) text += line + "\n";
    for (const GateResult& gate : options.gates) text += gate.Summary() + "\n";
    return text;
  }
  std::string WriteComparison(const RunComparison& runs,
                              const WriteOptions& options) const override {
    std::vector<std::vector<std::string>> lines = ComparisonLines(runs, options);
    if (options.width > 0) FitComparison(lines, options);
    std::string text = AlignedColumns(lines, 1);
    if (lines.size() == 1) text += "(no layer)\n";
    text += "\n";
    for (const std::string& line : ComparisonSummary(runs, options)) text += line + "\n";
    for (const GateResult& gate : options.gates) text += gate.Summary() + "\n";
    return text;
  }
};

}  // namespace

std::shared_ptr<const ReportWriter> MakeTextWriter() { return std::make_shared<TextWriter>(); }

}  // namespace hif8
