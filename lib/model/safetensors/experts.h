// Mixture of experts: which blocks have experts, and which experts a row goes to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hif8 {

struct ExpertsSpec {
  int64_t count = 0;         // experts of a block
  int64_t per_row = 0;       // that each row goes to
  int64_t intermediate = 0;  // width of one
  int64_t shared = 0;        // width of the shared expert, 0: none
  bool sigmoid = false;      // scores of single experts; else softmax over all
  bool corrected = false;    // choice by score + e_score_correction_bias, weights by score
  int64_t groups = 1;        // experts are chosen from the best groups only: by the sum of the two
  int64_t groups_used = 1;   // best scores in each
  bool normalised = false;   // weights of a row's experts sum to 1 (before `scaling`)
  double scaling = 1;
  std::vector<bool> sparse;  // per block: has experts

  bool HasExperts(int64_t block) const { return count > 0 && sparse[static_cast<size_t>(block)]; }
};

struct ExpertChoice {
  int64_t expert;
  float weight;  // of its output
};

// The experts of one row, best first (the lower number among equals). `logits` and, where
// `corrected`, `correction` have one value per expert.
// Sources: DeepSeek-V3 (arXiv 2412.19437, section 2.1.2), Qwen3-MoE's configuration.
std::vector<ExpertChoice> ChooseExperts(const ExpertsSpec& spec, std::span<const float> logits,
                                        std::span<const float> correction);

}  // namespace hif8
