// The same operands under several number formats and scale rules, side by side.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/model/model.h"
#include "lib/numeric/error_metrics.h"
#include "lib/numeric/fake_quantize.h"
#include "lib/numeric/number_format.h"
#include "lib/numeric/tensor_stats.h"
#include "lib/quant/calibration_file.h"
#include "lib/quant/output_comparison.h"
#include "lib/quant/plan.h"

namespace hif8 {

// A number format, and how its scales are chosen.
struct FormatChoice {
  const NumberFormat* format = nullptr;
  const Calibrator* rule = nullptr;  // null: the plan's

  std::string Name() const;  // "mxfp8", "hif8:mse"
};

// Returns the choices, and behind them the plan's own formats that are not among them: what was
// written is what others are compared with.
std::vector<FormatChoice> BesideWritten(std::vector<FormatChoice> choices, const QuantPlan& plan);

// One operand of one layer under one choice.
struct ComparedOperand {
  std::string layer;    // as in Model::layers()
  std::string operand;  // "weight", "activation", "k", "v", "output"
  std::string format;   // FormatChoice::Name()
  ErrorMetrics error;
};

// Collects the errors of a plan's operands under other formats and rules. Formats that prescribe
// their scales (MX, FP8 blocks) use them, computed from the data as it comes; the others take the
// plan's granularity, its rule unless the choice has one, and their own default target. An operand
// that a recipe could not give that rule is left out: rules of activations alone for weights and
// outputs, rules that depend on order for caches, all but `max` where scales are found as the data
// comes; so are such scales where layers sum over different dimensions. Nothing but sums is kept.
class FormatComparison {
 public:
  // All arguments but `choices` must outlive the object. `stats` is indexed like
  // Model::activations(): where static scales come from; empty: only weights are compared.
  // `source`: what layers' outputs are computed with; null: they are not compared.
  // `written`: scales of the plan's activations that were chosen by more than its rule.
  FormatComparison(const Model& model, const QuantPlan& plan, std::vector<FormatChoice> choices,
                   const std::vector<TensorStats>& stats, const ActivationSource* source = nullptr,
                   const std::map<int, ActivationScale>& written = {});

  // Reads every weight of the plan once.
  void CompareWeights();
  // Adds one tensor of an activation of the plan.
  void AddActivation(int index, const TensorView& x);

  // In the order of layers, operands, choices. Shared operands appear for each of their layers.
  std::vector<ComparedOperand> Results() const;

 private:
  struct ActivationState {
    // Holds roundings by choice, like the errors; none where the operand is left out, or nothing
    // was observed to take a scale from.
    std::vector<std::optional<FakeQuantize>> roundings;
    std::vector<ErrorMetrics> errors;
  };

  std::optional<FakeQuantize> MakeRounding(const FormatChoice& choice, int index, bool cached,
                                           const TensorStats& record,
                                           const std::map<int, ActivationScale>& written) const;
  // Returns the weight's values under the choice of that number; -1: as they are.
  std::vector<float> DecodedWeight(int index, int choice) const;
  EncodedWeight Encoded(const TensorView& tensor, int index, const FormatChoice& choice) const;

  const Model& model_;
  const QuantPlan& plan_;
  std::vector<FormatChoice> choices_;
  std::map<int, std::vector<ErrorMetrics>> weights_;
  std::map<int, ActivationState> activations_;
  std::optional<OutputComparison> outputs_;
  std::vector<float> x_buffer_, y_buffer_;
};

}  // namespace hif8
