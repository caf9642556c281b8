// `mse.objective: output`: activation scales that keep the error of the layers' outputs small.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "lib/model/model.h"
#include "lib/numeric/tensor_stats.h"
#include "lib/quant/plan.h"
#include "lib/runtime/activation_source.h"

namespace hif8 {

// A sample of one activation's values: slices along its leading dimension, drawn with equal chances
// by a fixed pseudo-random number for each slice in the order of the data, so that threads and
// batches do not matter. At most kMostSlices and, beyond the first, kMostElements.
class SliceSample {
 public:
  static constexpr size_t kMostSlices = 64;
  static constexpr size_t kMostElements = size_t{1} << 18;

  struct Slice {
    uint64_t priority = 0;
    Shape shape;  // leading dimension 1
    std::vector<float> values;
  };

  // Slices with a value that is not finite are left out.
  void Add(const TensorView& x);
  // Returns the slices by rising priority.
  const std::vector<Slice>& slices() const { return slices_; }

 private:
  std::vector<Slice> slices_;
  size_t elements_ = 0;
  uint64_t seen_ = 0;
};

class OutputObjective {
 public:
  // All must outlive the object.
  OutputObjective(const Model& model, const QuantPlan& plan, const ActivationSource& source)
      : model_(model), plan_(plan), source_(source) {}

  // Activations of the plan whose rule searches are sampled.
  void Add(int activation, const TensorView& x);

  // Returns the candidate scale of the activation's rule that minimises the sum, over the layers
  // that read it and the sampled slices, of the squared error of the output with quantized input
  // and weight. `encode` gives a weight's codes. Nothing when a layer cannot stand alone or nothing
  // was sampled.
  std::optional<ScaleChoice> Solve(int activation, const TensorStats& stats,
                                   const std::function<EncodedWeight(int)>& encode) const;

 private:
  const Model& model_;
  const QuantPlan& plan_;
  const ActivationSource& source_;
  std::map<int, SliceSample> samples_;
};

}  // namespace hif8
