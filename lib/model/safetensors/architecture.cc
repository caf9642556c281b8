#include "lib/model/safetensors/architecture.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/core/error.h"

namespace hif8 {
namespace {

// No model has dimensions near this; products of two of them fit in 64 bits.
constexpr int64_t kMaxDimension = int64_t{1} << 28;
constexpr int64_t kMaxBlocks = 10'000;

Error ConfigError(const ModelConfig& config, const std::string& message) {
  return ModelError(message, "weights alone can be quantized with --recipe cast", config.where());
}

int64_t Dimension(const ModelConfig& config, std::string_view key, int64_t value) {
  if (value >= 1 && value <= kMaxDimension) return value;
  throw ConfigError(config, "'" + std::string(key) + "': expected 1 to " +
                                std::to_string(kMaxDimension) + ", found " + std::to_string(value));
}

int64_t Dimension(const ModelConfig& config, std::string_view key) {
  return Dimension(config, key, config.Integer(key));
}

// A number that may be zero, which it is where the key is absent.
int64_t OptionalDimension(const ModelConfig& config, std::string_view key) {
  const int64_t value = config.Integer(key, 0);
  return value == 0 ? 0 : Dimension(config, key, value);
}

bool HasBias(const ModelConfig& config, std::string_view rule) {
  if (rule == Architecture::kNever) return false;
  return rule == Architecture::kAlways || config.Bool(rule, false);
}

std::vector<int64_t> Windows(const Architecture& architecture, const ModelConfig& config,
                             int64_t blocks) {
  std::vector<int64_t> windows(static_cast<size_t>(blocks), 0);
  const bool listed = architecture.window == WindowRule::kListed;
  if (architecture.window == WindowRule::kNone || !config.Has("sliding_window") ||
      (listed && !config.Bool("use_sliding_window", false))) {
    return windows;
  }
  const int64_t window = Dimension(config, "sliding_window");
  const std::vector<std::string> types = config.Strings("layer_types");
  if (!types.empty() && static_cast<int64_t>(types.size()) != blocks) {
    throw ConfigError(config, "'layer_types': expected " + std::to_string(blocks) +
                                  " entries, found " + std::to_string(types.size()));
  }
  const int64_t first = listed ? config.Integer("max_window_layers", blocks) : 0;
  for (size_t i = 0; i < windows.size(); ++i) {
    const bool limited =
        types.empty() ? static_cast<int64_t>(i) >= first : types[i] == "sliding_attention";
    if (limited) windows[i] = window;
  }
  return windows;
}

ExpertsSpec QwenExperts(const ModelConfig& config, int64_t blocks) {
  ExpertsSpec experts;
  experts.count = Dimension(config, "num_experts");
  experts.per_row = Dimension(config, "num_experts_per_tok");
  experts.intermediate = Dimension(config, "moe_intermediate_size");
  experts.normalised = config.Bool("norm_topk_prob", false);
  const int64_t step =
      Dimension(config, "decoder_sparse_step", config.Integer("decoder_sparse_step", 1));
  const std::vector<int64_t> dense = config.Integers("mlp_only_layers", {});
  for (int64_t i = 0; i < blocks; ++i) {
    experts.sparse.push_back((i + 1) % step == 0 &&
                             std::find(dense.begin(), dense.end(), i) == dense.end());
  }
  return experts;
}

ExpertsSpec DeepSeekExperts(const ModelConfig& config, int64_t blocks) {
  ExpertsSpec experts;
  experts.count = Dimension(config, "n_routed_experts");
  experts.per_row = Dimension(config, "num_experts_per_tok");
  experts.intermediate = Dimension(config, "moe_intermediate_size");
  experts.shared = OptionalDimension(config, "n_shared_experts") * experts.intermediate;
  experts.sigmoid = true;
  experts.corrected = true;
  experts.groups = Dimension(config, "n_group", config.Integer("n_group", 1));
  experts.groups_used = Dimension(config, "topk_group", config.Integer("topk_group", 1));
  experts.normalised = config.Bool("norm_topk_prob", true);
  experts.scaling = config.Number("routed_scaling_factor", 1);
  for (const auto& [key, value] :
       {std::pair("scoring_func", "sigmoid"), std::pair("topk_method", "noaux_tc")}) {
    if (config.String(key, value) == value) continue;
    throw ConfigError(config, "'" + std::string(key) + "': expected " + value + ", found '" +
                                  config.String(key, value) + "'");
  }
  const int64_t first = config.Integer("first_k_dense_replace", 0);
  const int64_t step = Dimension(config, "moe_layer_freq", config.Integer("moe_layer_freq", 1));
  for (int64_t i = 0; i < blocks; ++i) experts.sparse.push_back(i >= first && i % step == 0);
  return experts;
}

ExpertsSpec Experts(const Architecture& architecture, const ModelConfig& config, int64_t blocks) {
  if (architecture.experts == ExpertKeys::kNone) return {};
  const ExpertsSpec experts = architecture.experts == ExpertKeys::kQwen
                                  ? QwenExperts(config, blocks)
                                  : DeepSeekExperts(config, blocks);
  if (experts.per_row > experts.count || experts.count % experts.groups != 0 ||
      experts.groups_used > experts.groups) {
    throw ConfigError(
        config, std::to_string(experts.count) + " experts in " + std::to_string(experts.groups) +
                    " groups, " + std::to_string(experts.per_row) + " of " +
                    std::to_string(experts.groups_used) + " groups for each token: this cannot be");
  }
  return experts;
}

LatentSpec Latent(const ModelConfig& config) {
  LatentSpec latent;
  latent.q_rank = OptionalDimension(config, "q_lora_rank");
  latent.kv_rank = Dimension(config, "kv_lora_rank");
  latent.nope = Dimension(config, "qk_nope_head_dim");
  latent.rope = Dimension(config, "qk_rope_head_dim");
  latent.value = Dimension(config, "v_head_dim");
  latent.interleaved = config.Bool("rope_interleave", true);
  return latent;
}

void CheckSupported(const ModelConfig& config) {
  const std::string activation = config.String("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    throw ConfigError(config, "'hidden_act': expected silu, found '" + activation + "'");
  }
  if (config.Number("partial_rotary_factor", 1) != 1) {
    throw ConfigError(config, "'partial_rotary_factor' other than 1 is not supported");
  }
}

}  // namespace

const Architecture* FindArchitecture(std::string_view model_type) {
  for (const Architecture& architecture : Architectures()) {
    if (architecture.model_type == model_type) return &architecture;
  }
  return nullptr;
}

std::string KnownArchitectures() {
  std::string names;
  for (const Architecture& architecture : Architectures()) {
    names += (names.empty() ? "" : ", ") + std::string(architecture.model_type);
  }
  return names;
}

DecoderSpec MakeDecoderSpec(const Architecture& architecture, const ModelConfig& config) {
  CheckSupported(config);
  DecoderSpec spec;
  spec.hidden = Dimension(config, "hidden_size");
  spec.intermediate = Dimension(config, "intermediate_size");
  spec.vocabulary = Dimension(config, "vocab_size");
  spec.blocks = Dimension(config, "num_hidden_layers");
  if (spec.blocks > kMaxBlocks) {
    throw ConfigError(config, "'num_hidden_layers': expected at most " +
                                  std::to_string(kMaxBlocks) + ", found " +
                                  std::to_string(spec.blocks));
  }
  spec.heads = Dimension(config, "num_attention_heads");
  spec.kv_heads =
      Dimension(config, "num_key_value_heads", config.Integer("num_key_value_heads", spec.heads));
  if (architecture.latent_attention) {
    spec.latent = Latent(config);
    spec.head_dim = spec.latent.rope;
  } else {
    const int64_t usual = architecture.default_head_dim > 0 ? architecture.default_head_dim
                                                            : spec.hidden / spec.heads;
    spec.head_dim = Dimension(config, "head_dim", config.Integer("head_dim", usual));
  }
  if (spec.heads % spec.kv_heads != 0) {
    throw ConfigError(config, "'num_attention_heads' " + std::to_string(spec.heads) +
                                  " is no multiple of 'num_key_value_heads' " +
                                  std::to_string(spec.kv_heads));
  }
  if (spec.head_dim % 2 != 0) {
    throw ConfigError(
        config, "'head_dim': expected an even number, found " + std::to_string(spec.head_dim));
  }
  spec.epsilon = static_cast<float>(config.Number("rms_norm_eps", 1e-6));
  spec.rope = MakeRope(config, spec.head_dim);
  const int64_t width =
      architecture.latent_attention ? spec.latent.nope + spec.latent.rope : spec.head_dim;
  spec.softmax_scale = 1 / std::sqrt(static_cast<double>(width));
  if (architecture.latent_attention) spec.softmax_scale *= spec.rope.temperature;
  spec.experts = Experts(architecture, config, spec.blocks);
  spec.head_norms = architecture.head_norms;
  spec.qkv_bias = HasBias(config, architecture.qkv_bias);
  spec.output_bias = HasBias(config, architecture.output_bias);
  spec.mlp_bias = HasBias(config, architecture.mlp_bias);
  spec.tied = config.Bool("tie_word_embeddings", false);
  spec.windows = Windows(architecture, config, spec.blocks);
  return spec;
}

}  // namespace hif8
