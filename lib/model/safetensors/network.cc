#include "lib/model/safetensors/network.h"

#include <utility>

#include "lib/core/error.h"
#include "lib/model/safetensors/checkpoint.h"

namespace hif8 {
namespace {

const Architecture& ArchitectureOf(const Checkpoint& checkpoint) {
  if (!checkpoint.has_config()) {
    throw ModelError("there is no config.json that says how the tensors are connected",
                     "give the folder of the checkpoint; weights alone can be quantized with "
                     "--recipe cast",
                     checkpoint.path().string());
  }
  const std::string type = checkpoint.config().String("model_type", "");
  if (const Architecture* architecture = FindArchitecture(type)) return *architecture;
  throw ModelError(
      "model_type '" + type + "' is not known, so that its activations cannot be " + "computed",
      "known: " + KnownArchitectures() + "; weights alone can be quantized with --recipe cast",
      checkpoint.config().where());
}

std::string PrefixOf(const Checkpoint& checkpoint) {
  constexpr std::string_view kEmbedding = "embed_tokens.weight";
  for (const char* prefix : {"model.", "", "language_model.model."}) {
    if (checkpoint.Find(prefix + std::string(kEmbedding)) != nullptr) return prefix;
  }
  throw ModelError(
      "tensor 'model.embed_tokens.weight' is missing",
      "give the folder of the whole checkpoint; weights alone need no data: leave out --data",
      checkpoint.path().string());
}

void CheckConstants(const Checkpoint& checkpoint, const std::string& prefix,
                    const PartGraph& part) {
  for (const PartConstant& constant : part.constants) {
    checkpoint.FindShaped(prefix + constant.tensor, constant.shape);
  }
}

// All experts of a block, one after the other along the first dimension.
void CheckFusedExperts(const Checkpoint& checkpoint, const Network& network, int64_t block) {
  const ExpertsSpec& experts = network.spec.experts;
  const std::string prefix = network.FusedExpertsPrefix(block);
  checkpoint.FindShaped(prefix + "gate_up_proj",
                        {experts.count, 2 * experts.intermediate, network.spec.hidden});
  checkpoint.FindShaped(prefix + "down_proj",
                        {experts.count, network.spec.hidden, experts.intermediate});
}

}  // namespace

Network DescribeNetwork(const Checkpoint& checkpoint) {
  const Architecture& architecture = ArchitectureOf(checkpoint);
  Network network;
  network.spec = MakeDecoderSpec(architecture, checkpoint.config());
  network.prefix = PrefixOf(checkpoint);
  network.embedding = network.prefix + "embed_tokens.weight";
  network.head = network.spec.tied ? network.embedding : "lm_head.weight";
  const Shape table = {network.spec.vocabulary, network.spec.hidden};
  checkpoint.FindShaped(network.embedding, table);
  checkpoint.FindShaped(network.head, table);
  CheckConstants(checkpoint, network.prefix, DecoderNorm(network.spec, {}));
  const PartGraph dense = DecoderBlock(network.spec, false, {});
  const PartGraph sparse = DecoderBlock(network.spec, true, {});
  const PartGraph expert = DecoderExpert(network.spec, {});
  for (int64_t i = 0; i < network.spec.blocks; ++i) {
    const bool has_experts = network.spec.experts.HasExperts(i);
    CheckConstants(checkpoint, network.BlockPrefix(i), has_experts ? sparse : dense);
    if (!has_experts) continue;
    if (network.spec.experts.corrected) {
      checkpoint.FindShaped(network.CorrectionName(i), {network.spec.experts.count});
    }
    network.fused_experts |=
        checkpoint.Find(network.FusedExpertsPrefix(i) + "gate_up_proj") != nullptr;
    if (network.fused_experts) {
      CheckFusedExperts(checkpoint, network, i);
      continue;
    }
    for (int64_t e = 0; e < network.spec.experts.count; ++e) {
      CheckConstants(checkpoint, network.ExpertPrefix(i, e), expert);
    }
  }
  return network;
}

}  // namespace hif8
