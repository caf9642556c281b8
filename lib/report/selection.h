// Which layers a writer shows, and in which order.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/pattern.h"
#include "lib/report/columns.h"

namespace hif8 {

// A comparison of a column with a value: `layer=conv1` (exact), `layer~^enc\.` (regular
// expression), `output_sqnr<20`, `weight_zero_rate>=0.01`.
class Condition {
 public:
  // Throws a usage error that tells what is wrong with the text.
  explicit Condition(const std::string& text);
  bool Holds(const LayerReport& layer) const;

 private:
  const Column* column_;
  std::string op_;
  std::string value_;
  double number_ = 0;
  std::vector<Pattern> pattern_;  // one, for ~
};

struct Selection {
  std::vector<Condition> where;  // all must hold
  const Column* sort = nullptr;  // null: the model's order
  bool descending = false;
  size_t top = 0;  // 0: all
};

// "output_sqnr", "weight_zero_rate:desc" of --sort. Throws a usage error.
void ParseSort(const std::string& text, Selection* selection);

// The layers that pass, sorted; what was not measured comes last. Equal ones keep their order.
std::vector<const LayerReport*> SelectLayers(std::span<const LayerReport> layers,
                                             const Selection& selection);

// "a<=b" taken apart, for conditions and gates.
struct Comparison {
  std::string left, op, right;
};
// Finds the first of `ops` (longer ones first) in the text; op is empty when there is none.
Comparison SplitComparison(const std::string& text, std::span<const std::string_view> ops);
// `op` is one of < <= > >= =.
bool Compare(double left, std::string_view op, double right);
// Parses a finite number; false for other text.
bool ParseNumber(std::string_view text, double* number);

}  // namespace hif8
