// Mixture of experts: which blocks have experts, and which experts a row goes to.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/core/enum_names.h"

namespace hif8 {

// From a router's logits to weights.
enum class RouterScore {
  kSoftmax,         // over all experts
  kSigmoid,         // of each
  kSoftmaxOfChosen  // over those that were chosen by their logits
};
template <>
inline constexpr EnumTable<RouterScore, 3> kEnumNames<RouterScore>{
    {{RouterScore::kSoftmax, "softmax"},
     {RouterScore::kSigmoid, "sigmoid"},
     {RouterScore::kSoftmaxOfChosen, "softmax_of_chosen"}}};

// A group's score: the sum of its two best experts' or the best one's.
enum class GroupScore { kSumOfTwo, kMax };
template <>
inline constexpr EnumTable<GroupScore, 2> kEnumNames<GroupScore>{
    {{GroupScore::kSumOfTwo, "sum_of_two"}, {GroupScore::kMax, "max"}}};

// Dimensions of a tensor that holds all experts of a block.
enum class ExpertLayout { kOutIn, kInOut };
template <>
inline constexpr EnumTable<ExpertLayout, 2> kEnumNames<ExpertLayout>{
    {{ExpertLayout::kOutIn, "out_in"}, {ExpertLayout::kInOut, "in_out"}}};

struct ExpertsSpec {
  int64_t count = 0;         // experts of a block
  int64_t per_row = 0;       // that each row goes to
  int64_t intermediate = 0;  // width of one
  RouterScore score = RouterScore::kSoftmax;
  GroupScore group_score = GroupScore::kSumOfTwo;
  int64_t groups = 1;  // experts are chosen from the best groups only
  int64_t groups_used = 1;
  bool normalised = false;    // weights of a row's experts sum to 1 (before `scaling`)
  bool weight_input = false;  // weights multiply what an expert reads, not what it gives
  double scaling = 1;
  // Modules and tensors, relative to the block; empty: there is none.
  std::string router;
  bool router_bias = false;
  std::string correction;      // experts are chosen by score + correction, weighted by score
  std::string prefix;          // "mlp.experts."
  std::string gate, up, down;  // of an expert
  std::string fused_gate_up, fused_down;  // tensors that hold all experts
  ExpertLayout layout = ExpertLayout::kOutIn;
  bool interleaved = false;  // rows of gate and up alternate in fused tensors
  bool bias = false;
  int64_t shared = 0;  // width of the shared expert, 0: none
  std::string shared_prefix;
  std::string shared_gate;

  bool corrected() const { return !correction.empty(); }
  // Fused tensors whose experts have one product for gate and up.
  bool joint() const { return layout == ExpertLayout::kInOut || interleaved || bias; }
};

struct ExpertChoice {
  int64_t expert;
  float weight;  // of its output
};

// Returns the experts of one row, best first (the lower number among equals). `logits` and, where
// corrected(), `correction` have one value per expert.
// Sources: DeepSeek-V2 and V3 (arXiv 2405.04434, 2412.19437, section 2.1.2), Qwen3-MoE's and
// gpt-oss' configurations.
std::vector<ExpertChoice> ChooseExperts(const ExpertsSpec& spec, std::span<const float> logits,
                                        std::span<const float> correction);

}  // namespace hif8
