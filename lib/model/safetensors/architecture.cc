#include "lib/model/safetensors/architecture.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/model/safetensors/description_values.h"

namespace hif8 {
namespace {

constexpr int64_t kMaxBlocks = 10'000;
constexpr int64_t kMaxRotated = 1 << 16;  // elements of a head, which have a table of angles
constexpr const char* kTextConfig = "text_config";

void CheckExperts(const DescriptionValues& values, const ExpertsSpec& experts) {
  if (experts.count == 0) return;
  if (experts.groups < 1 || experts.per_row < 1 || experts.per_row > experts.count ||
      experts.count % experts.groups != 0 || experts.groups_used > experts.groups) {
    values.Fail("experts.count",
                std::to_string(experts.count) + " experts in " + std::to_string(experts.groups) +
                    " groups, " + std::to_string(experts.per_row) + " of " +
                    std::to_string(experts.groups_used) + " groups for each token: this cannot be");
  }
}

void CheckSizes(const DescriptionValues& values, const DecoderSpec& spec) {
  if (spec.heads % spec.kv_heads != 0) {
    values.Fail("attention.kv_heads", std::to_string(spec.heads) +
                                          " heads of queries are no multiple of " +
                                          std::to_string(spec.kv_heads));
  }
  if (spec.input == InputType::kTokens && spec.vocabulary < 1) {
    values.Fail("vocab_size", "expected an integer from 1, found none");
  }
  if (spec.input == InputType::kImage && spec.image.size % spec.image.patch != 0) {
    values.Fail("input.size", std::to_string(spec.image.size) + " is no multiple of patches of " +
                                  std::to_string(spec.image.patch));
  }
  if (spec.experts.count > 0 && !(spec.norm.mlp_output + spec.norm.mlp_sum).empty()) {
    values.Fail("norm.mlp_output", "a norm behind experts is not supported");
  }
}

std::vector<BlockSpec> Blocks(const DecoderSpec& spec) {
  const BlockFlags& flags = spec.flags;
  std::vector<BlockSpec> blocks(static_cast<size_t>(spec.blocks));
  for (size_t i = 0; i < blocks.size(); ++i) {
    BlockSpec& block = blocks[i];
    block.kind.input_norm = flags.input_norm[i];
    block.kind.linear = flags.linear[i];
    block.kind.sparse = spec.experts.count > 0 && flags.sparse[i];
    if (flags.linear[i]) continue;
    block.mask = {flags.windowed[i] ? spec.attention.window : 0,
                  flags.chunked[i] ? spec.attention.chunk : 0, spec.attention.causal};
    block.local_rope = flags.local_rope[i];
    block.kind.rotated = flags.rotated[i];
    block.kind.qk_norm = spec.attention.norm.over != QkNorm::kNone && flags.qk_norm[i];
    block.kind.tempered = flags.tempered[i];
  }
  return blocks;
}

void MakeRopes(const DescriptionValues& values, DecoderSpec* spec) {
  const auto& rotated = spec->flags.rotated;
  if (std::find(rotated.begin(), rotated.end(), true) == rotated.end()) return;
  const RotationSpec& rotation = spec->rotation;
  const auto dim = static_cast<int64_t>(std::floor(rotation.dimension));
  const int64_t most = std::min(spec->head_dim, kMaxRotated);
  if (dim < 2 || dim > most || dim % 2 != 0) {
    values.Fail("rope.dim", "expected an even number up to " + std::to_string(most) + ", found " +
                                std::to_string(dim));
  }
  spec->rope = MakeRope(values.config(), rotation.theta, dim);
  spec->local_rope = PlainRope(rotation.local_theta, dim);
  spec->rope.interleaved = spec->local_rope.interleaved = rotation.interleaved;
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
  for (const DescriptionKey& key : DescriptionKeys()) {
    if (key.fill) key.fill(values, &spec);
    if (spec.blocks > kMaxBlocks) {
      values.Fail("num_layers", "expected at most " + std::to_string(kMaxBlocks) + ", found " +
                                    std::to_string(spec.blocks));
    }
    values.SetBlocks(spec.blocks);
  }
  CheckSizes(values, spec);
  CheckExperts(values, spec.experts);
  MakeRopes(values, &spec);
  spec.experts.scaling *= spec.residual_multiplier;
  if (spec.latent.kv_rank > 0) spec.softmax_scale *= spec.rope.temperature;
  spec.block = Blocks(spec);
  spec.prefixes = description.prefixes;
  if (spec.prefixes.empty()) {
    spec.prefixes = {"model.", "", "language_model.model.", "model.language_model."};
  }
  return spec;
}

}  // namespace hif8
