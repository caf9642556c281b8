#include "lib/report/selection.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "lib/core/error.h"

namespace hif8 {
namespace {

constexpr std::array<std::string_view, 6> kOps = {"<=", ">=", "<", ">", "=", "~"};

}  // namespace

Comparison SplitComparison(const std::string& text, std::span<const std::string_view> ops) {
  size_t first = std::string::npos;
  std::string_view found;
  for (const std::string_view op : ops) {
    const size_t at = text.find(op);
    if (at < first) {
      first = at;
      found = op;
    }
  }
  if (found.empty()) return {text, "", ""};
  const auto trimmed = [](std::string part) {
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    return part;
  };
  return {trimmed(text.substr(0, first)), std::string(found),
          trimmed(text.substr(first + found.size()))};
}

bool Compare(double left, std::string_view op, double right) {
  if (op == "<") return left < right;
  if (op == "<=") return left <= right;
  if (op == ">") return left > right;
  if (op == ">=") return left >= right;
  return left == right;
}

bool ParseNumber(std::string_view text, double* number) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *number);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() &&
         std::isfinite(*number);
}

Condition::Condition(const std::string& text) {
  const Comparison parts = SplitComparison(text, kOps);
  if (parts.op.empty() || parts.left.empty()) {
    throw UsageError("--where needs key=value, key~regex or a comparison, found '" + text + "'",
                     "for example --where op=Conv or --where 'output_sqnr<20'");
  }
  column_ = &GetColumn(parts.left);
  op_ = parts.op;
  value_ = parts.right;
  if (op_ == "~") {
    pattern_.emplace_back(value_, "--where " + text);
  } else if (column_->kind != ColumnKind::kText) {
    if (!ParseNumber(value_, &number_)) {
      throw UsageError(
          "--where " + text + ": expected a number after " + op_ + ", found '" + value_ + "'",
          "shares are between 0 and 1, SQNR is in dB");
    }
  } else if (op_ != "=") {
    throw UsageError("--where " + text + ": the column '" + column_->name + "' is text",
                     "compare it with = or ~");
  }
}

bool Condition::Holds(const LayerReport& layer) const {
  const Cell cell = column_->get(layer);
  if (op_ == "~") return pattern_.front().Matches(CellExactText(cell));
  if (column_->kind == ColumnKind::kText) return CellExactText(cell) == value_;
  const Measured value = CellNumber(cell);
  return value && Compare(*value, op_, number_);
}

void ParseSort(const std::string& text, Selection* selection) {
  std::string name = text;
  selection->descending = false;
  const size_t colon = text.rfind(':');
  if (colon != std::string::npos) {
    const std::string order = text.substr(colon + 1);
    if (order != "asc" && order != "desc") {
      throw UsageError(
          "--sort " + text + ": expected asc or desc after the colon, found '" + order + "'",
          "for example --sort weight_zero_rate:desc");
    }
    name = text.substr(0, colon);
    selection->descending = order == "desc";
  }
  selection->sort = &GetColumn(name);
}

std::vector<const LayerReport*> SelectLayers(std::span<const LayerReport> layers,
                                             const Selection& selection) {
  std::vector<const LayerReport*> selected;
  for (const LayerReport& layer : layers) {
    const auto holds = [&](const Condition& condition) { return condition.Holds(layer); };
    if (std::all_of(selection.where.begin(), selection.where.end(), holds)) {
      selected.push_back(&layer);
    }
  }
  if (selection.sort != nullptr) {
    const Column& column = *selection.sort;
    const auto before = [&](const LayerReport* a, const LayerReport* b) {
      const Cell left = column.get(*a);
      const Cell right = column.get(*b);
      if (column.kind == ColumnKind::kText) {
        const std::string x = CellExactText(left);
        const std::string y = CellExactText(right);
        return selection.descending ? y < x : x < y;
      }
      const Measured x = CellNumber(left);
      const Measured y = CellNumber(right);
      if (!x || !y) return x.has_value() && !y.has_value();
      return selection.descending ? *y < *x : *x < *y;
    };
    std::stable_sort(selected.begin(), selected.end(), before);
  }
  if (selection.top > 0 && selected.size() > selection.top) selected.resize(selection.top);
  return selected;
}

}  // namespace hif8
