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
  std::map<int, int> input_of_;            // the activation that each weight's layers read
  std::map<int, std::string> unsuitable_;  // why a weight is rounded to nearest
  std::map<int, MomentSums> sums_;         // by activation
  std::map<int, std::string> problems_;    // what is wrong with an activation's samples
};

}  // namespace hif8
