#include "lib/report/columns.h"

#include <array>
#include <cmath>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/suggest.h"
#include "lib/report/text_util.h"

namespace hif8 {
namespace {

using OperandMember = std::optional<OperandReport> LayerReport::*;

struct OperandKind {
  const char* name;
  const char* title;
  OperandMember member;
  bool has_scale;  // an operand that is quantized; the others are only measured
};
constexpr std::array<OperandKind, 4> kOperands = {{
    {"weight", "weight", &LayerReport::weight, true},
    {"activation", "input", &LayerReport::activation, true},
    {"output", "output", &LayerReport::output, false},
    {"accumulated", "output with the errors of earlier layers", &LayerReport::accumulated, false},
}};

template <typename T>
struct OperandField {
  const char* name;
  T OperandReport::*member;
  ColumnKind kind;
  bool of_scale;  // only of operands that have a scale
  const char* title;
  const char* help;
  Better better = Better::kNeither;
};

constexpr std::array<OperandField<Measured>, 10> kNumbers = {{
    {"sqnr", &OperandReport::sqnr_db, ColumnKind::kDecibel, false, "dB", "SQNR in dB",
     Better::kHigher},
    {"zero_rate", &OperandReport::zero_rate, ColumnKind::kShare, false, "zero",
     "share of zeros after quantization", Better::kLower},
    {"zeroed_rate", &OperandReport::zeroed_rate, ColumnKind::kShare, false, "zeroed",
     "share that quantization made zero", Better::kLower},
    {"saturation_rate", &OperandReport::saturation_rate, ColumnKind::kShare, false, "saturated",
     "share at or above the format's overflow threshold", Better::kLower},
    {"exceeded_rate", &OperandReport::exceeded_rate, ColumnKind::kShare, false, "exceeded",
     "share above the reference magnitude", Better::kLower},
    {"cosine", &OperandReport::cosine, ColumnKind::kNumber, false, "cosine", "cosine similarity",
     Better::kHigher},
    {"max_abs_error", &OperandReport::max_abs_error, ColumnKind::kNumber, false, "max error",
     "largest absolute error", Better::kLower},
    {"amax", &OperandReport::amax, ColumnKind::kNumber, false, "amax", "largest magnitude"},
    {"scale", &OperandReport::scale, ColumnKind::kNumber, true, "scale", "scale, when it is one"},
    {"target", &OperandReport::target, ColumnKind::kNumber, true, "target",
     "magnitude that the reference is mapped to"},
}};
constexpr std::array<OperandField<std::string>, 3> kTexts = {{
    {"rule", &OperandReport::scale_rule, ColumnKind::kText, true, "rule", "scale rule"},
    {"format", &OperandReport::format, ColumnKind::kText, true, "format", "number format"},
    {"granularity", &OperandReport::granularity, ColumnKind::kText, true, "granularity",
     "which elements share a scale"},
}};
constexpr std::array<OperandField<std::optional<int64_t>>, 3> kCounts = {{
    {"samples", &OperandReport::samples, ColumnKind::kCount, true, "samples",
     "calibration samples that were seen"},
    {"bytes_before", &OperandReport::bytes_before, ColumnKind::kBytes, true, "before",
     "bytes in the original"},
    {"bytes_after", &OperandReport::bytes_after, ColumnKind::kBytes, true, "after",
     "bytes when quantized", Better::kLower},
}};

Cell ToCell(const Measured& value) { return value; }
Cell ToCell(const std::string& text) { return text; }
Cell ToCell(const std::optional<int64_t>& count) {
  return count ? Measured(static_cast<double>(*count)) : Measured();
}

template <typename T, size_t N>
void AddFields(const OperandKind& operand, const std::array<OperandField<T>, N>& fields,
               std::vector<Column>& columns) {
  for (const OperandField<T>& field : fields) {
    if (field.of_scale && !operand.has_scale) continue;
    const std::string name = operand.name;
    columns.push_back({name + "_" + field.name, name + " " + field.title, field.kind,
                       std::string(operand.title) + ": " + field.help,
                       [member = operand.member, value = field.member](const LayerReport& layer) {
                         const auto& found = layer.*member;
                         return found ? ToCell((*found).*value) : Cell();
                       },
                       field.better});
  }
}

void AddText(std::vector<Column>& columns, const char* name, const char* help,
             std::string LayerReport::*member) {
  columns.push_back({name, name, ColumnKind::kText, help,
                     [member](const LayerReport& layer) { return Cell(layer.*member); }});
}

std::vector<Column> BuildColumns() {
  std::vector<Column> columns;
  AddText(columns, "layer", "name of the layer", &LayerReport::name);
  AddText(columns, "op", "operator", &LayerReport::op);
  columns.push_back(
      {"status", "status", ColumnKind::kText, "quantized or kept", [](const LayerReport& layer) {
         return Cell(std::string(layer.quantized ? "quantized" : "kept"));
       }});
  AddText(columns, "reason", "why it was kept", &LayerReport::reason);
  for (const OperandKind& operand : kOperands) {
    AddFields(operand, kNumbers, columns);
    AddFields(operand, kTexts, columns);
    AddFields(operand, kCounts, columns);
  }
  columns.push_back({"notes", "notes", ColumnKind::kText, "remarks on weight and activation",
                     [](const LayerReport& layer) {
                       std::string notes;
                       for (const OperandKind& operand : kOperands) {
                         const auto& found = layer.*operand.member;
                         if (!found) continue;
                         for (const std::string& note : found->notes) {
                           notes += (notes.empty() ? "" : "; ") + note;
                         }
                       }
                       return Cell(notes);
                     }});
  return columns;
}

std::string_view FullName(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kShort = {{
      {"name", "layer"},
      {"weight", "weight_sqnr"},
      {"activation", "activation_sqnr"},
      {"output", "output_sqnr"},
      {"accumulated", "accumulated_sqnr"},
      {"samples", "activation_samples"},
      {"bytes_before", "weight_bytes_before"},
      {"bytes_after", "weight_bytes_after"},
  }};
  for (const auto& [from, to] : kShort) {
    if (name == from) return to;
  }
  return name;
}

}  // namespace

const std::vector<Column>& LayerColumns() {
  static const std::vector<Column> kColumns = BuildColumns();
  return kColumns;
}

const Column& GetColumn(std::string_view name) {
  std::vector<std::string> names;
  for (const Column& column : LayerColumns()) {
    if (column.name == FullName(name)) return column;
    names.push_back(column.name);
  }
  throw UsageError("unknown column '" + std::string(name) + "'", SuggestionHint(name, names));
}

std::vector<const Column*> ParseColumns(std::string_view list) {
  std::vector<const Column*> columns;
  while (true) {
    const size_t comma = list.find(',');
    columns.push_back(&GetColumn(list.substr(0, comma)));
    if (comma == std::string_view::npos) return columns;
    list.remove_prefix(comma + 1);
  }
}

std::string NumberText(ColumnKind kind, const Measured& value) {
  if (!value) return "-";
  switch (kind) {
    case ColumnKind::kDecibel:
      return DecibelText(value);
    case ColumnKind::kShare:
      return PercentText(value);
    case ColumnKind::kBytes:
      return BytesText(static_cast<int64_t>(*value));
    case ColumnKind::kCount:
      return std::to_string(static_cast<int64_t>(*value));
    default:
      return NumberText6(value);
  }
}

std::string CellText(const Column& column, const Cell& cell) {
  if (const std::string* text = std::get_if<std::string>(&cell)) {
    return text->empty() ? "-" : CleanText(*text);
  }
  return NumberText(column.kind, CellNumber(cell));
}

std::string CellExactText(const Cell& cell) {
  if (const std::string* text = std::get_if<std::string>(&cell)) return *text;
  return ExactText(CellNumber(cell));
}

Measured CellNumber(const Cell& cell) {
  const Measured* value = std::get_if<Measured>(&cell);
  return value != nullptr && *value && !std::isnan(**value) ? *value : Measured();
}

}  // namespace hif8
