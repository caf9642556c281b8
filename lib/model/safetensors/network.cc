#include "lib/model/safetensors/network.h"

#include <map>
#include <utility>

#include "lib/core/error.h"
#include "lib/model/safetensors/architecture.h"
#include "lib/model/safetensors/checkpoint.h"

namespace hif8 {
namespace {

const Description& DescriptionOf(const Checkpoint& checkpoint) {
  if (!checkpoint.has_config()) {
    throw ModelError("there is no config.json that says how the tensors are connected",
                     "give the folder of the checkpoint; weights alone can be quantized with "
                     "--recipe cast",
                     checkpoint.path().string());
  }
  if (const Description* own = checkpoint.description()) return *own;
  if (const Description* known = FindDescription(checkpoint.config())) return *known;
  const std::string type = checkpoint.config().String("model_type", "");
  throw ModelError(
      "model_type '" + type + "' is not known, so that its activations cannot be " + "computed",
      "describe it with --architecture FILE; known: " + KnownModelTypes() +
          "; weights alone can be quantized with --recipe cast",
      checkpoint.config().where());
}

std::string PrefixOf(const Checkpoint& checkpoint, const DecoderSpec& spec) {
  const std::string embedding = spec.embedding + ".weight";
  for (const std::string& prefix : spec.prefixes) {
    if (checkpoint.Find(prefix + embedding) != nullptr) return prefix;
  }
  throw ModelError(
      "tensor '" + spec.prefixes.front() + embedding + "' is missing",
      "give the folder of the whole checkpoint; weights alone need no data: leave out --data",
      checkpoint.path().string());
}

// The head's tensor stands beside the decoder's prefix or beside its outer part.
std::string HeadOf(const Checkpoint& checkpoint, const Network& network) {
  const std::string head = network.spec.head + ".weight";
  for (size_t end = network.prefix.size(); end > 0;) {
    if (checkpoint.Find(network.prefix.substr(0, end) + head) != nullptr) {
      return network.prefix.substr(0, end) + head;
    }
    const size_t dot = end < 2 ? std::string::npos : network.prefix.rfind('.', end - 2);
    end = dot == std::string::npos ? 0 : dot + 1;
  }
  return head;
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
  const auto check = [&](const std::string& name, int64_t out, int64_t in) {
    const bool turned = experts.layout == ExpertLayout::kInOut;
    checkpoint.FindShaped(prefix + name, {experts.count, turned ? in : out, turned ? out : in});
    if (experts.bias) checkpoint.FindShaped(prefix + name + "_bias", {experts.count, out});
  };
  check(experts.fused_gate_up, 2 * experts.intermediate, network.spec.hidden);
  check(experts.fused_down, network.spec.hidden, experts.intermediate);
}

}  // namespace

std::string Network::CacheProducer(const std::string& name, int64_t block) const {
  const AttentionSpec& a = spec.attention;
  if (spec.latent.kv_rank > 0) return BlockPrefix(block) + "self_attn.kv_a_proj_with_mqa.weight";
  if (!a.qkv.empty()) return BlockPrefix(block) + a.qkv + ".weight";
  return BlockPrefix(block) + (name.ends_with(".k") ? a.k : a.v) + ".weight";
}

Network DescribeNetwork(const Checkpoint& checkpoint) {
  Network network;
  network.spec = MakeDecoderSpec(DescriptionOf(checkpoint), checkpoint.config());
  network.spec.head_caches = checkpoint.head_caches() && network.spec.latent.kv_rank == 0;
  const DecoderSpec& spec = network.spec;
  network.prefix = PrefixOf(checkpoint, spec);
  network.embedding = network.prefix + spec.embedding + ".weight";
  network.head = spec.tied ? network.embedding : HeadOf(checkpoint, network);
  const Shape table = {spec.vocabulary, spec.hidden};
  checkpoint.FindShaped(network.embedding, table);
  checkpoint.FindShaped(network.head, table);
  CheckConstants(checkpoint, network.prefix, DecoderNorm(spec, {}));
  std::map<BlockKind, PartGraph> kinds;
  for (int64_t i = 0; i < spec.blocks; ++i) {
    const BlockKind kind = spec.At(i).kind;
    auto part = kinds.find(kind);
    if (part == kinds.end()) part = kinds.emplace(kind, network.Block(i, {})).first;
    CheckConstants(checkpoint, network.BlockPrefix(i), part->second);
    if (!kind.sparse) continue;
    if (spec.experts.corrected()) {
      checkpoint.FindShaped(network.CorrectionName(i), {spec.experts.count});
    }
    network.fused_experts |=
        checkpoint.Find(network.FusedExpertsPrefix(i) + spec.experts.fused_gate_up) != nullptr;
    if (network.fused_experts) {
      CheckFusedExperts(checkpoint, network, i);
      continue;
    }
    const PartGraph expert = network.Expert({});
    for (int64_t e = 0; e < spec.experts.count; ++e) {
      CheckConstants(checkpoint, network.ExpertPrefix(i, e), expert);
    }
  }
  return network;
}

}  // namespace hif8
