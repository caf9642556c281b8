// Rows on their way to the experts of a block and back. Internal to this module.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lib/model/safetensors/experts.h"
#include "lib/runtime/hidden_states.h"
#include "lib/runtime/part_session.h"

namespace hif8 {

class ExpertRouting {
 public:
  // `correction`: what is added to scores, as ChooseExperts takes it. `sizes`: elements of each
  // sample's rows of `width`.
  ExpertRouting(const ExpertsSpec& spec, std::vector<float> correction,
                const std::vector<size_t>& sizes, size_t width, uint64_t memory_limit);

  // Takes what the block's own graph gave for a sample: what experts read, and the router's logits.
  void Take(size_t sample, const TensorView& normed, const TensorView& logits);

  // Rows of the sample that go to the expert, rising.
  const std::vector<int64_t>& Rows(int64_t expert, size_t sample) const {
    return routes_[static_cast<size_t>(expert)][sample].rows;
  }
  // Experts that some row goes to.
  std::vector<int64_t> Active() const;

  // Runs an expert over its rows of one sample (`all`: over all rows, for what is observed) and
  // adds what comes out, weighted, to `states`.
  void Run(const PartSession& session, NamedTensors* constants, int64_t expert, size_t sample,
           bool all, HiddenStates* states);

 private:
  struct Route {
    std::vector<int64_t> rows;
    std::vector<float> weights;
  };
  const ExpertsSpec& spec_;
  std::vector<float> correction_;
  size_t width_;
  std::vector<size_t> lengths_;             // rows of each sample
  std::vector<std::vector<Route>> routes_;  // [expert][sample]
  HiddenStates normed_;
};

}  // namespace hif8
