// What a recipe says about single layers.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/pattern.h"
#include "lib/quant/config.h"

namespace hif8 {

// The operands of one layer after all overrides.
struct LayerConfig {
  OperandConfig weights;
  OperandConfig activations;
  bool operator==(const LayerConfig&) const = default;
};

// A recipe's patterns, compiled. Matching is a search: 'mlp' matches every name that contains it.
// Layers that are treated as one match what any of their names matches.
class LayerRules {
 public:
  explicit LayerRules(const QuantConfig& config);

  // Why `keep` or `only` leaves the layers in high precision, or empty when they do not.
  std::string KeptBecause(std::span<const std::string> layers) const;
  // Returns the layers' operands: the recipe's, then every matching override in order.
  LayerConfig Resolve(std::span<const std::string> layers) const;
  // Returns where the value of a key that holds for the layer stands; empty for a default.
  std::string PlaceOf(const std::string& key, const std::string& layer) const;

  // Returns one usage error, with near matches, for each required pattern that matches no layer.
  std::vector<Error> Unmatched(std::span<const std::string> layers) const;
  // Throws Unmatched() as one error unless it is empty.
  void RequireMatches(std::span<const std::string> layers) const;

 private:
  QuantConfig config_;
  std::vector<Pattern> keep_, only_, overrides_, policy_;
};

// True for the first ceil(n / 2) and the last floor(n / 2) of `block_count` blocks; `block` -1
// (outside any) is never one.
bool IsHighPrecisionBlock(int block, int block_count, int64_t n);

// Returns the numbers that scale rules use. `percentile` and so on come from the operand.
ScaleParams MakeScaleParams(const OperandConfig& operand, const QuantConfig& config);

}  // namespace hif8
