// The same operands under several number formats, side by side.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/model/model.h"
#include "lib/numeric/error_metrics.h"
#include "lib/numeric/number_format.h"
#include "lib/numeric/tensor_stats.h"
#include "lib/numeric/tile_scaling.h"
#include "lib/quant/output_comparison.h"
#include "lib/quant/plan.h"

namespace hif8 {

// One operand of one layer under one format.
struct ComparedOperand {
  std::string layer;    // as in Model::layers()
  std::string operand;  // "weight", "activation", "k", "v", "output"
  std::string format;
  ErrorMetrics error;
};

// Collects the errors of a plan's operands under other formats. Formats that prescribe their scales
// (MX, FP8 blocks) use them, computed from the data as it comes; the others take the plan's rule
// and granularity and their own default target. Nothing but sums is kept.
class FormatComparison {
 public:
  // All arguments but `formats` must outlive the object. `stats` is indexed like
  // Model::activations(): where static scales come from; empty: only weights are compared.
  // `source`: what layers' outputs are computed with; null: they are not compared.
  FormatComparison(const Model& model, const QuantPlan& plan,
                   std::vector<const NumberFormat*> formats, const std::vector<TensorStats>& stats,
                   const ActivationSource* source = nullptr);

  // Reads every weight of the plan once.
  void CompareWeights();
  // Adds one tensor of an activation of the plan.
  void AddActivation(int index, const TensorView& x);

  // In the order of layers, operands, formats. Shared operands appear for each of their layers.
  std::vector<ComparedOperand> Results() const;

 private:
  struct ActivationState {
    // Per format: scales of tiles that are found as the data comes, else a static one; neither
    // where nothing was observed to take it from.
    std::vector<std::optional<TileScaling>> dynamic;
    std::vector<std::optional<float>> scales;
    std::vector<ErrorMetrics> errors;
  };

  // The weight's values under the format of that number; -1: as they are.
  std::vector<float> DecodedWeight(int index, int format) const;
  EncodedWeight Encoded(const TensorView& tensor, int index, const NumberFormat& format) const;
  ErrorMetrics WeightError(const TensorView& tensor, int index, const NumberFormat& format) const;

  const Model& model_;
  const QuantPlan& plan_;
  std::vector<const NumberFormat*> formats_;
  std::map<int, std::vector<ErrorMetrics>> weights_;
  std::map<int, ActivationState> activations_;
  std::optional<OutputComparison> outputs_;
  std::vector<float> x_buffer_, y_buffer_;
};

}  // namespace hif8
