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

// Says how a norm computes.
struct NormKind {
  NormType type = NormType::kRms;
  double epsilon = 0;
  bool bias = false;  // of layer norms
};

struct NormSpec : NormKind {
  std::string input, attention_output, attention_sum, mlp_input, mlp_output, mlp_sum;
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
  double epsilon = 0;  // of the norms of what is compressed
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
  AttentionType type = AttentionType::kHeads;
  std::string q, k, v, qkv, o;  // qkv not empty: one Linear instead of three
  bool causal = true;
  bool qkv_bias = false;
  bool key_bias = false;
  bool output_bias = false;
  bool output_gate = false;  // q gives a gate for what attention returns, too
  std::string sinks;
  double soft_cap = 0;  // 0: none
  QkNormSpec norm;
  TemperatureSpec temperature;
  int64_t window = 0;  // of blocks that have one; 0: none
  int64_t chunk = 0;

  // Returns the module that all of it is in: "self_attn".
  std::string Module() const {
    const std::string& first = qkv.empty() ? q : qkv;
    return first.substr(0, first.rfind('.'));
  }
};

struct MlpSpec {
  ActivationFunction activation = ActivationFunction::kSilu;
  double limit = 0;  // of kClampedSwiglu
  double alpha = 0;
  bool bias = false;
  std::string prefix;  // "mlp."
  // gate empty: down(act(up(x))); fused not empty: gate and up are one Linear.
  std::string gate, up, down, fused;
};

// Says what makes the first hidden states.
enum class InputType { kTokens, kImage };
template <>
inline constexpr EnumTable<InputType, 2> kEnumNames<InputType>{
    {{InputType::kTokens, "tokens"}, {InputType::kImage, "image"}}};

// Square images, [channels, size, size], cut into patches by a convolution.
struct ImageSpec {
  int64_t size = 0;
  int64_t channels = 0;
  int64_t patch = 0;
  std::string projection;  // module of the convolution
  bool bias = false;

  int64_t patches() const { return (size / patch) * (size / patch); }
};

// Names of modules and tensors are relative to the decoder.
struct EmbeddingSpec {
  std::string name;
  double multiplier = 1;
  std::string class_token;  // tensor: one more position before all others
  std::string positions;    // tensor with a row for every position, added
  std::string types;        // tensor whose first row is added
  std::string norm;
};

// Says which positions' hidden states go to the head.
enum class Pooling { kNone, kFirst, kAttention };
template <>
inline constexpr EnumTable<Pooling, 3> kEnumNames<Pooling>{
    {{Pooling::kNone, "none"}, {Pooling::kFirst, "first"}, {Pooling::kAttention, "attention"}}};

// Attention of one stored query over all positions, then an MLP with a norm before it.
struct PoolSpec {
  Pooling type = Pooling::kNone;
  std::string probe;   // tensor, the query
  std::string module;  // of the attention, with in_proj_weight and out_proj
  std::string norm;
  std::string mlp_prefix;
};

// Behind the last block: logits = head(norm(act(transform(x)))).
struct HeadSpec {
  std::string name;  // empty: the network ends before it
  int64_t rows = 0;
  bool tied = false;  // the head's weight is the embedding's
  std::string bias;   // tensor
  double multiplier = 1;
  double soft_cap = 0;    // 0: none
  std::string transform;  // module
  bool transform_bias = false;
  std::string norm;
};

// Says which positions a block sees; 0: all.
struct MaskSpec {
  int64_t window = 0;                                 // so many on a side, its own included
  int64_t chunk = 0;                                  // those of its own chunk of so many
  bool causal = true;                                 // none behind its own
  auto operator<=>(const MaskSpec&) const = default;  // NOLINT(modernize-use-nullptr)
};

// Properties of which each block has its own, in the order of blocks.
struct BlockFlags {
  std::vector<bool> input_norm, windowed, chunked, qk_norm, tempered, rotated, local_rope, linear,
      sparse;
};

// Holds what a description says of rotation; `Rope` is what follows with config.json.
struct RotationSpec {
  double theta = 0;
  double dimension = 0;
  double local_theta = 0;
  bool interleaved = false;
};

// Tells blocks from each other in form; blocks of one kind share a graph.
struct BlockKind {
  bool sparse = false;  // has experts
  bool input_norm = true;
  bool rotated = true;                                 // queries and keys are
  bool qk_norm = false;                                // are normalised
  bool tempered = false;                               // queries grow with their position
  bool linear = false;                                 // linear attention
  auto operator<=>(const BlockKind&) const = default;  // NOLINT(modernize-use-nullptr)
};

// Describes one block.
struct BlockSpec {
  BlockKind kind;
  MaskSpec mask;
  bool local_rope = false;  // is rotated by `local_rope`
};

// A network's numbers and names.
struct DecoderSpec {
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t vocabulary = 0;
  int64_t blocks = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  bool parallel = false;  // attention and MLP read the same normalised input
  double residual_multiplier = 1;
  double softmax_scale = 0;  // of attention scores
  bool head_caches = false;  // the keys and values of each head are caches of their own
  std::string block_list;    // module of the blocks
  InputType input = InputType::kTokens;
  ImageSpec image;
  EmbeddingSpec embedding;
  PoolSpec pool;
  HeadSpec head;
  NormSpec norm;
  AttentionSpec attention;
  RotationSpec rotation;
  Rope rope;
  Rope local_rope;  // of blocks that say so
  MlpSpec mlp;
  ExpertsSpec experts;  // count 0: none
  LatentSpec latent;
  IndexerSpec indexer;
  LinearAttentionSpec linear;
  BlockFlags flags;
  std::vector<BlockSpec> block;
  std::vector<std::string> prefixes;  // that the decoder's tensors may have

  const BlockSpec& At(int64_t b) const { return block[static_cast<size_t>(b)]; }
  // Tells whether something besides rows of the embedding makes the first hidden states.
  bool HasFront() const {
    return input != InputType::kTokens || !embedding.positions.empty() ||
           !embedding.types.empty() || !embedding.norm.empty();
  }
  // Tells whether it predicts the token behind each.
  bool PredictsTokens() const { return attention.causal && !head.name.empty(); }
};

}  // namespace hif8
