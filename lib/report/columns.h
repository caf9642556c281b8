// The columns of the table of layers: one list for writers, sorting, filtering and gates.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/report/report.h"

namespace hif8 {

// Holds what a layer has in a column. monostate: the column does not apply to it (a kept layer has
// no weight error); an empty Measured: it applies but was not measured.
using Cell = std::variant<std::monostate, Measured, std::string>;

enum class ColumnKind { kText, kDecibel, kShare, kNumber, kCount, kBytes };

// Says which way a number is better; kNeither: it says nothing about quality.
enum class Better { kNeither, kHigher, kLower };

struct Column {
  std::string name;   // "output_sqnr", "weight_zero_rate": as in --columns, --sort and gates
  std::string title;  // for table heads: "output dB"
  ColumnKind kind = ColumnKind::kText;
  std::string help;
  std::function<Cell(const LayerReport&)> get;
  Better better = Better::kNeither;
};

const std::vector<Column>& LayerColumns();
// Finds a column by name, or by a short one: "weight" is weight_sqnr, "name" layer. Throws a usage
// error with a suggestion when there is none.
const Column& GetColumn(std::string_view name);
// "layer,op,output_sqnr" as columns.
std::vector<const Column*> ParseColumns(std::string_view list);

// Formats a number of this kind for people; "-" when there is nothing to show.
std::string NumberText(ColumnKind kind, const Measured& value);
// Formats a cell for people; "-" when there is nothing to show.
std::string CellText(const Column& column, const Cell& cell);
// Formats a cell for programs: exact, empty when there is nothing.
std::string CellExactText(const Cell& cell);
// Returns the number in a cell, or nothing.
Measured CellNumber(const Cell& cell);

}  // namespace hif8
