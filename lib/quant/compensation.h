// `weights.rounding: compensated`: weights that are rounded for the outputs of their layers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/model/model.h"
#include "lib/numeric/fake_quantize.h"
#include "lib/quant/plan.h"
#include "lib/quant/second_moments.h"

namespace hif8 {

// Tells whether the plan has a weight to round so.
bool WantsCompensation(const QuantPlan& plan);

// Gathers the moments of the layers' quantized inputs, and rounds the weights with them.
class Compensation {
 public:
  // `activations`: how inputs are rounded, by index into Model::activations(); others stay as they
  // are. All moments together take at most `memory` bytes: where they would take more, those of
  // inputs far from each other are left out. Model and plan must outlive the object.
  Compensation(const Model& model, const QuantPlan& plan, std::map<int, FakeQuantize> activations,
               uint64_t memory);

  // Returns the activations to be shown to Add().
  std::vector<int> Wanted() const;
  // Adds some samples of an activation.
  void Add(int activation, const TensorView& x);

  // Rounds a weight of the plan with the scales of its layout. Where that cannot be done for the
  // outputs, it is rounded to nearest. `note`: what was done, for the report.
  std::vector<uint8_t> Round(int weight, const FloatSource& values, std::span<const float> scales,
                             std::string* note) const;

 private:
  const Model& model_;
  const QuantPlan& plan_;
  std::map<int, FakeQuantize> activations_;
  // Names what moments are of: an activation's rows, or the patches of it that a convolution sees.
  struct Source {
    int activation = -1;
    int layer = -1;                                   // of a convolution with a kernel, else -1
    auto operator<=>(const Source&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  // Sums of one source, and what is wrong with its samples.
  struct Gathered {
    MomentSums sums;
    std::string problem = {};
  };

  void AddTo(const Source& source, const Shape& shape, std::span<const float> values,
             Gathered* gathered) const;
  // Rounds the rows of each group of a convolution with the moments of the group's inputs.
  std::vector<uint8_t> RoundGroups(const WeightPlan& plan, const FloatSource& values,
                                   std::span<const float> scales, const MomentSums& sums) const;

  std::map<int, Source> source_of_;        // by weight
  std::map<int, std::string> unsuitable_;  // why a weight is rounded to nearest
  std::map<Source, Gathered> gathered_;
};

}  // namespace hif8
