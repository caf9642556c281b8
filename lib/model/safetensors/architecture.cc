#include "lib/model/safetensors/architecture.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/model/safetensors/description_values.h"

namespace hif8 {
namespace {

constexpr int64_t kMaxBlocks = 10'000;
constexpr const char* kTextConfig = "text_config";

ExpertsSpec Experts(DescriptionValues& values) {
  ExpertsSpec experts;
  experts.count = values.Integer("experts.count");
  if (experts.count == 0) return experts;
  experts.per_row = values.Integer("experts.per_token");
  experts.intermediate = values.Integer("experts.intermediate_size");
  experts.score = values.Choice<RouterScore>("experts.score");
  experts.group_score = values.Choice<GroupScore>("experts.group_score");
  experts.groups = values.Integer("experts.groups");
  experts.groups_used = values.Integer("experts.groups_used");
  experts.normalised = values.Bool("experts.normalized");
  experts.weight_input = values.Bool("experts.weight_input");
  experts.scaling = values.Number("experts.scaling") * values.Number("residual_multiplier");
  experts.router = values.Name("experts.router");
  experts.router_bias = values.Bool("experts.router_bias");
  experts.correction = values.Name("experts.correction");
  experts.prefix = values.Name("experts.prefix");
  experts.gate = values.Name("experts.gate");
  experts.up = values.Name("experts.up");
  experts.down = values.Name("experts.down");
  experts.fused_gate_up = values.Name("experts.fused_gate_up");
  experts.fused_down = values.Name("experts.fused_down");
  experts.layout = values.Choice<ExpertLayout>("experts.fused_layout");
  experts.interleaved = values.Bool("experts.interleaved");
  experts.bias = values.Bool("experts.bias");
  experts.shared = values.Integer("shared_expert.intermediate_size");
  experts.shared_prefix = values.Name("shared_expert.prefix");
  experts.shared_gate = values.Name("shared_expert.gate");
  if (experts.groups < 1 || experts.per_row < 1 || experts.per_row > experts.count ||
      experts.count % experts.groups != 0 || experts.groups_used > experts.groups) {
    values.Fail("experts.count",
                std::to_string(experts.count) + " experts in " + std::to_string(experts.groups) +
                    " groups, " + std::to_string(experts.per_row) + " of " +
                    std::to_string(experts.groups_used) + " groups for each token: this cannot be");
  }
  return experts;
}

LatentSpec Latent(DescriptionValues& values) {
  LatentSpec latent;
  if (values.Choice<AttentionType>("attention.type") != AttentionType::kLatent) return latent;
  latent.q_rank = values.Integer("latent.q_rank");
  latent.kv_rank = values.Integer("latent.kv_rank");
  latent.nope = values.Integer("latent.nope_dim");
  latent.rope = values.Integer("latent.rope_dim");
  latent.value = values.Integer("latent.value_dim");
  latent.epsilon = static_cast<float>(values.Number("latent.epsilon"));
  return latent;
}

IndexerSpec Indexer(DescriptionValues& values) {
  return {values.Integer("indexer.keys"), values.Integer("indexer.heads"),
          values.Integer("indexer.head_dim")};
}

LinearAttentionSpec Linear(DescriptionValues& values) {
  return {values.Integer("linear_attention.key_heads"),
          values.Integer("linear_attention.value_heads"),
          values.Integer("linear_attention.key_dim"), values.Integer("linear_attention.value_dim"),
          values.Integer("linear_attention.kernel")};
}

NormSpec Norm(DescriptionValues& values) {
  NormSpec norm;
  norm.type = values.Choice<NormType>("norm.type");
  norm.epsilon = static_cast<float>(values.Number("norm.epsilon"));
  norm.input = values.Name("norm.input");
  norm.attention_output = values.Name("norm.attention_output");
  norm.mlp_input = values.Name("norm.mlp_input");
  norm.mlp_output = values.Name("norm.mlp_output");
  norm.final = values.Name("norm.final");
  return norm;
}

AttentionSpec Attention(DescriptionValues& values) {
  AttentionSpec attention;
  attention.q = values.Name("attention.q");
  attention.k = values.Name("attention.k");
  attention.v = values.Name("attention.v");
  attention.qkv = values.Name("attention.qkv");
  attention.o = values.Name("attention.o");
  attention.qkv_bias = values.Bool("attention.qkv_bias");
  attention.output_bias = values.Bool("attention.output_bias");
  attention.output_gate = values.Bool("attention.output_gate");
  attention.sinks = values.Name("attention.sinks");
  attention.soft_cap = values.Number("attention.soft_cap");
  attention.norm.over = values.Choice<QkNorm>("attention.norm.over");
  attention.norm.after_rope = values.Bool("attention.norm.after_rope");
  attention.norm.weight = values.Bool("attention.norm.weight");
  attention.norm.query = values.Name("attention.norm.query");
  attention.norm.key = values.Name("attention.norm.key");
  attention.temperature = {values.Number("attention.temperature.scale"),
                           values.Number("attention.temperature.floor")};
  return attention;
}

MlpSpec Mlp(DescriptionValues& values) {
  MlpSpec mlp;
  mlp.activation = values.Choice<ActivationFunction>("mlp.activation");
  mlp.limit = values.Number("mlp.limit");
  mlp.alpha = values.Number("mlp.alpha");
  mlp.bias = values.Bool("mlp.bias");
  mlp.prefix = values.Name("mlp.prefix");
  mlp.gate = values.Name("mlp.gate");
  mlp.up = values.Name("mlp.up");
  mlp.down = values.Name("mlp.down");
  mlp.fused = values.Name("mlp.gate_up");
  return mlp;
}

std::vector<BlockSpec> Blocks(DescriptionValues& values, const DecoderSpec& spec) {
  const auto windowed = values.Blocks("attention.windowed");
  const auto chunked = values.Blocks("attention.chunked");
  const auto normed = values.Blocks("attention.norm.layers");
  const auto tempered = values.Blocks("attention.temperature.layers");
  const auto rotated = values.Blocks("rope.layers");
  const auto local = values.Blocks("rope.local_layers");
  const auto linear = values.Blocks("linear_attention.layers");
  const auto sparse = values.Blocks("experts.layers");
  const int64_t window = values.Integer("attention.window");
  const int64_t chunk = values.Integer("attention.chunk");
  std::vector<BlockSpec> blocks(static_cast<size_t>(spec.blocks));
  for (size_t i = 0; i < blocks.size(); ++i) {
    BlockSpec& block = blocks[i];
    block.kind.linear = linear[i];
    block.kind.sparse = spec.experts.count > 0 && sparse[i];
    if (linear[i]) continue;
    block.mask = {windowed[i] ? window : 0, chunked[i] ? chunk : 0};
    block.local_rope = local[i];
    block.kind.rotated = rotated[i];
    block.kind.qk_norm = spec.attention.norm.over != QkNorm::kNone && normed[i];
    block.kind.tempered = tempered[i];
  }
  return blocks;
}

void ReadSizes(DescriptionValues& values, DecoderSpec* spec) {
  spec->hidden = values.Integer("hidden_size");
  spec->intermediate = values.Integer("intermediate_size");
  spec->vocabulary = values.Integer("vocab_size");
  spec->blocks = values.Integer("num_layers");
  if (spec->blocks > kMaxBlocks) {
    values.Fail("num_layers", "expected at most " + std::to_string(kMaxBlocks) + ", found " +
                                  std::to_string(spec->blocks));
  }
  values.SetBlocks(spec->blocks);
  spec->heads = values.Integer("attention.heads");
  spec->kv_heads = values.Integer("attention.kv_heads");
  spec->head_dim = values.Integer("attention.head_dim");
  if (spec->heads % spec->kv_heads != 0) {
    values.Fail("attention.kv_heads", std::to_string(spec->heads) +
                                          " heads of queries are no "
                                          "multiple of " +
                                          std::to_string(spec->kv_heads));
  }
}

void ReadRopes(DescriptionValues& values, DecoderSpec* spec) {
  const auto dim = static_cast<int64_t>(std::floor(values.Number("rope.dim")));
  if (dim < 2 || dim > spec->head_dim || dim % 2 != 0) {
    values.Fail("rope.dim", "expected an even number up to " + std::to_string(spec->head_dim) +
                                ", found " + std::to_string(dim));
  }
  spec->rope = MakeRope(values.config(), values.Number("rope.theta"), dim);
  spec->rope.interleaved = values.Bool("rope.interleaved");
  spec->local_rope = PlainRope(values.Number("rope.local_theta"), dim);
  spec->local_rope.interleaved = spec->rope.interleaved;
}

}  // namespace

const Description* FindDescription(const ModelConfig& config) {
  for (const ModelConfig& object : {config, config.Object(kTextConfig)}) {
    const std::string type = object.String("model_type", "");
    for (const Description& description : BuiltinDescriptions()) {
      const auto& types = description.model_types;
      if (std::find(types.begin(), types.end(), type) != types.end()) return &description;
    }
  }
  return nullptr;
}

DecoderSpec MakeDecoderSpec(const Description& description, const ModelConfig& config) {
  DescriptionValues values(description, config);
  DecoderSpec spec;
  ReadSizes(values, &spec);
  spec.parallel = values.Bool("parallel");
  spec.embedding_multiplier = values.Number("embedding.multiplier");
  spec.residual_multiplier = values.Number("residual_multiplier");
  spec.logit_multiplier = values.Number("head.multiplier");
  spec.logit_cap = values.Number("head.soft_cap");
  spec.tied = values.Bool("head.tied");
  spec.embedding = values.Name("embedding.name");
  spec.head = values.Name("head.name");
  spec.norm = Norm(values);
  spec.attention = Attention(values);
  ReadRopes(values, &spec);
  spec.mlp = Mlp(values);
  spec.experts = Experts(values);
  spec.latent = Latent(values);
  spec.softmax_scale = values.Number("attention.scale");
  if (spec.latent.kv_rank > 0) spec.softmax_scale *= spec.rope.temperature;
  spec.indexer = Indexer(values);
  spec.linear = Linear(values);
  spec.block = Blocks(values, spec);
  if (spec.experts.count > 0 && !spec.norm.mlp_output.empty()) {
    values.Fail("norm.mlp_output", "a norm behind experts is not supported");
  }
  spec.prefixes = description.prefixes;
  if (spec.prefixes.empty()) {
    spec.prefixes = {"model.", "", "language_model.model.", "model.language_model."};
  }
  return spec;
}

}  // namespace hif8
