// What a decoder's blocks compute: a description of its family, filled in from config.json.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/core/enum_names.h"
#include "lib/model/safetensors/experts.h"
#include "lib/model/safetensors/rope.h"

namespace hif8 {

enum class NormType { kRms, kRmsPlusOne, kLayer };
template <>
inline constexpr EnumTable<NormType, 3> kEnumNames<NormType>{
    {{NormType::kRms, "rms"},
     {NormType::kRmsPlusOne, "rms_plus_one"},
     {NormType::kLayer, "layer"}}};

// Says what norms of queries and keys go over.
enum class QkNorm { kNone, kHead, kProjection };
template <>
inline constexpr EnumTable<QkNorm, 3> kEnumNames<QkNorm>{
    {{QkNorm::kNone, "none"}, {QkNorm::kHead, "head"}, {QkNorm::kProjection, "projection"}}};

enum class AttentionType { kHeads, kLatent };
template <>
inline constexpr EnumTable<AttentionType, 2> kEnumNames<AttentionType>{
    {{AttentionType::kHeads, "heads"}, {AttentionType::kLatent, "latent"}}};

// The names of `hidden_act`.
enum class ActivationFunction { kSilu, kGelu, kGeluTanh, kQuickGelu, kRelu, kClampedSwiglu };
template <>
inline constexpr EnumTable<ActivationFunction, 8> kEnumNames<ActivationFunction>{
    {{ActivationFunction::kSilu, "silu"},
     {ActivationFunction::kSilu, "swish"},
     {ActivationFunction::kGelu, "gelu"},
     {ActivationFunction::kGeluTanh, "gelu_pytorch_tanh"},
     {ActivationFunction::kGeluTanh, "gelu_new"},
     {ActivationFunction::kQuickGelu, "quick_gelu"},
     {ActivationFunction::kRelu, "relu"},
     {ActivationFunction::kClampedSwiglu, "clamped_swiglu"}}};

// Names of modules are relative to the block; empty: there is none.

struct NormSpec {
  NormType type = NormType::kRms;
  float epsilon = 0;
  std::string input, attention_output, mlp_input, mlp_output;
  std::string final;  // relative to the decoder
};

struct QkNormSpec {
  QkNorm over = QkNorm::kNone;
  bool after_rope = false;
  bool weight = true;
  std::string query, key;
};

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values come from one
// compressed vector and a rotated part that all heads share.
struct LatentSpec {
  int64_t q_rank = 0;   // 0: q is not compressed
  int64_t kv_rank = 0;  // 0: ordinary attention
  int64_t nope = 0;     // elements of a head that are not rotated
  int64_t rope = 0;     // and those that are
  int64_t value = 0;
  float epsilon = 0;  // of the norms of what is compressed
};

// Picks the keys that each query sees (DeepSeek-V3.2).
struct IndexerSpec {
  int64_t keys = 0;  // 0: no indexer
  int64_t heads = 0;
  int64_t head_dim = 0;
};

// Linear attention by the gated delta rule (Qwen3-Next).
struct LinearAttentionSpec {
  int64_t key_heads = 0;
  int64_t value_heads = 0;
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  int64_t kernel = 0;  // taps of the convolution before it
};

// Queries grow with their position (Llama 4): q * (1 + scale * ln(1 + floor((t + 1) / floor))).
struct TemperatureSpec {
  double scale = 0;
  double floor = 1;
};

struct AttentionSpec {
  std::string q, k, v, qkv, o;  // qkv not empty: one Linear instead of three
  bool qkv_bias = false;
  bool output_bias = false;
  bool output_gate = false;  // q gives a gate for what attention returns, too
  std::string sinks;
  double soft_cap = 0;  // 0: none
  QkNormSpec norm;
  TemperatureSpec temperature;
};

struct MlpSpec {
  ActivationFunction activation = ActivationFunction::kSilu;
  double limit = 0;  // of kClampedSwiglu
  double alpha = 0;
  bool bias = false;
  std::string prefix;                 // "mlp."
  std::string gate, up, down, fused;  // fused not empty: gate and up are one Linear
};

// Says which positions a block sees besides none behind its own; 0: all.
struct MaskSpec {
  int64_t window = 0;  // so many, its own included
  int64_t chunk = 0;   // those of its own chunk of so many
  auto operator<=>(const MaskSpec&) const = default;
};

// Tells blocks from each other in form; blocks of one kind share a graph.
struct BlockKind {
  bool sparse = false;    // has experts
  bool rotated = true;    // queries and keys are
  bool qk_norm = false;   // are normalised
  bool tempered = false;  // queries grow with their position
  bool linear = false;    // linear attention
  auto operator<=>(const BlockKind&) const = default;
};

// Describes one block.
struct BlockSpec {
  BlockKind kind;
  MaskSpec mask;
  bool local_rope = false;  // is rotated by `local_rope`
};

// A decoder's numbers and names.
struct DecoderSpec {
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t vocabulary = 0;
  int64_t blocks = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  bool parallel = false;  // attention and MLP read the same normalised input
  double embedding_multiplier = 1;
  double residual_multiplier = 1;
  double logit_multiplier = 1;
  double logit_cap = 0;      // 0: none
  double softmax_scale = 0;  // of attention scores
  bool tied = false;         // the head's weight is the embedding's
  bool head_caches = false;  // the keys and values of each head are caches of their own
  std::string embedding;     // its module
  std::string head;
  NormSpec norm;
  AttentionSpec attention;
  Rope rope;
  Rope local_rope;  // of blocks that say so
  MlpSpec mlp;
  ExpertsSpec experts;  // count 0: none
  LatentSpec latent;
  IndexerSpec indexer;
  LinearAttentionSpec linear;
  std::vector<BlockSpec> block;
  std::vector<std::string> prefixes;  // that the decoder's tensors may have

  const BlockSpec& At(int64_t b) const { return block[static_cast<size_t>(b)]; }
};

}  // namespace hif8
