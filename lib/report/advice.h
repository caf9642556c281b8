// Which layers another number format or scale rule would help most, by what a report measured.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/numeric/number_format.h"
#include "lib/report/report.h"

namespace hif8 {

// One choice for an operand, as a comparison names it.
struct ComparedChoice {
  std::string format;
  std::string rule;  // empty: the recipe's
  double sqnr_db = 0;

  std::string Name() const;  // "mxfp8", "hif8:mse"
};

struct Advice {
  // One, or all that share the operand (or the input of an output), separated by commas; empty: all
  // layers, by the mean of their finite SQNR.
  std::string layer;
  std::string operand;
  ComparedChoice now, better;
  double gain_db = 0;
  std::string how;  // an entry of a recipe's `overrides`, or flags where no layer is named
};

// Returns what gains at least 0.1 dB. First what helps all layers, then single layers that gain
// more than they would by that, most first; at most `top` of these (0: all). Each line of advice
// alone makes a recipe that is accepted: `formats` say which rule they need. Throws kUsage with a
// way to get them when the report compares nothing.
std::vector<Advice> Advise(const Report& report, const FormatRegistry& formats, size_t top);

std::string AdviceText(const std::vector<Advice>& advice);
std::string AdviceJson(const std::vector<Advice>& advice);

}  // namespace hif8
