// Outputs of layers under several choices of format and rule, while their inputs go by.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lib/model/model.h"
#include "lib/numeric/error_metrics.h"
#include "lib/quant/plan.h"
#include "lib/runtime/activation_source.h"
#include "lib/runtime/layer_runner.h"

namespace hif8 {

// Runs every layer alone, as it is and with input and weight under each choice, on the original
// network's data. Keeps sums, and decoded weights of the layers that come by again and again up to
// kMostWeightBytes.
class OutputComparison {
 public:
  static constexpr size_t kMostWeightBytes = size_t{1} << 30;
  // Values of a weight, in the stored order, under the choice of that number; -1: as it is.
  using DecodeWeight = std::function<std::vector<float>(int weight, int choice)>;

  // All but `decode` must outlive the object.
  OutputComparison(const Model& model, const QuantPlan& plan, const ActivationSource& source,
                   size_t choices, DecodeWeight decode);

  // The next tensor of an activation; Add() is about it from then on.
  void Begin(int activation, const Shape& shape, std::span<const float> x);
  // The tensor under a choice.
  void Add(size_t choice, std::span<const float> quantized);

  // Returns errors by choice; empty for layers that were not compared.
  const std::vector<ErrorMetrics>& Errors(int layer) const;

 private:
  struct Reader {
    int layer;
    std::unique_ptr<LayerRunner> runner;  // null: it cannot stand alone
    std::vector<ErrorMetrics> errors;
    std::vector<float> exact;  // output of the current tensor
  };
  std::vector<Reader>& ReadersOf(int activation);
  const std::vector<float>& WeightOf(int weight, int choice);

  const Model& model_;
  const QuantPlan& plan_;
  const ActivationSource& source_;
  size_t choices_;
  DecodeWeight decode_;
  std::map<int, std::vector<Reader>> readers_;  // by activation
  std::vector<Reader>* current_ = nullptr;
  Shape shape_;
  using Key = std::pair<int, int>;                        // weight, choice
  std::list<std::pair<Key, std::vector<float>>> recent_;  // last used first
  size_t bytes_ = 0;
};

}  // namespace hif8
