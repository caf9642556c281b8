// Architectures of language models as data: what a family's config.json means.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/safetensors/experts.h"
#include "lib/model/safetensors/model_config.h"
#include "lib/model/safetensors/rope.h"

namespace hif8 {

// Which blocks look back over a limited number of positions only.
enum class WindowRule {
  kNone,
  kEvery,  // all blocks, where `sliding_window` is set
  kListed  // where `use_sliding_window` is true: those that `layer_types` names, else those from
           // `max_window_layers` on
};

// How a family names what its experts are made of.
enum class ExpertKeys {
  kNone,
  kQwen,     // num_experts, decoder_sparse_step, mlp_only_layers; softmax
  kDeepSeek  // n_routed_experts, n_group, first_k_dense_replace, shared experts; sigmoid
};

// What tells one family of decoders from another. Where a bias exists: kNever, kAlways, or the key
// of config.json that says so.
struct Architecture {
  static constexpr std::string_view kNever = "";
  static constexpr std::string_view kAlways = "*";

  std::string_view model_type;  // as in config.json
  std::string_view qkv_bias = kNever;
  std::string_view output_bias = kNever;
  std::string_view mlp_bias = kNever;
  bool head_norms = false;       // RMS norms over each head of q and k
  int64_t default_head_dim = 0;  // where config.json gives none; 0: hidden size / heads
  WindowRule window = WindowRule::kNone;
  ExpertKeys experts = ExpertKeys::kNone;
  bool latent_attention = false;  // DeepSeek's MLA
};

// All of them (arch/list.cc).
std::span<const Architecture> Architectures();
// Null when there is none of that model type.
const Architecture* FindArchitecture(std::string_view model_type);
// "llama, mistral, ..."
std::string KnownArchitectures();

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values come from one
// compressed vector and a rotated part that all heads share.
struct LatentSpec {
  int64_t q_rank = 0;  // 0: q is not compressed
  int64_t kv_rank = 0;
  int64_t nope = 0;  // elements of a head that are not rotated
  int64_t rope = 0;  // and those that are
  int64_t value = 0;
  bool interleaved = true;  // pairs to be rotated are neighbours
};

// A decoder's numbers.
struct DecoderSpec {
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t vocabulary = 0;
  int64_t blocks = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  float epsilon = 0;  // of the norms
  Rope rope;
  bool head_norms = false;
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  bool tied = false;             // the head's weight is the embedding's
  double softmax_scale = 0;      // of attention scores
  ExpertsSpec experts;           // count 0: none
  LatentSpec latent;             // kv_rank 0: ordinary attention
  std::vector<int64_t> windows;  // positions that each block sees, 0: all before
};

// Throws kModel naming the key where config.json is incomplete, contradicts itself or asks for what
// is not supported (an activation function, a RoPE scaling).
DecoderSpec MakeDecoderSpec(const Architecture& architecture, const ModelConfig& config);

}  // namespace hif8
