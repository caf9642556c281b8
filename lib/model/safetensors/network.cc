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
                     "--recipe weight-only",
                     checkpoint.path().string());
  }
  if (const Description* own = checkpoint.description()) return *own;
  if (const Description* known = FindDescription(checkpoint.config())) return *known;
  const std::string type = checkpoint.config().String("model_type", "");
  throw ModelError(
      "model_type '" + type + "' is not known, so that its activations cannot be " + "computed",
      "describe it with --architecture FILE; known: " + KnownModelTypes() +
          "; weights alone can be quantized with --recipe weight-only",
      checkpoint.config().where());
}

// By the first tensor that the network needs.
std::string PrefixOf(const Checkpoint& checkpoint, const DecoderSpec& spec) {
  const bool image = spec.input == InputType::kImage;
  const std::string first = (image ? spec.image.projection : spec.embedding.name) + ".weight";
  for (const std::string& prefix : spec.prefixes) {
    if (checkpoint.Find(prefix + first) != nullptr) return prefix;
  }
  throw ModelError(
      "tensor '" + spec.prefixes.front() + first + "' is missing",
      "give the folder of the whole checkpoint; weights alone need no data: leave out --data",
      checkpoint.path().string());
}

// What stands behind the last block has its tensors beside the decoder's prefix or beside its outer
// part: from the names that a description has to whole ones.
class OuterNames {
 public:
  OuterNames(const Checkpoint& checkpoint, const std::string& prefix)
      : checkpoint_(checkpoint), prefix_(prefix) {}

  // `suffix`: of a tensor that tells where the name is; the name may be empty.
  void Complete(std::string* name, const std::string& suffix) const {
    if (name->empty()) return;
    for (size_t end = prefix_.size(); end > 0;) {
      const std::string whole = prefix_.substr(0, end) + *name;
      if (checkpoint_.Find(whole + suffix) != nullptr) {
        *name = whole;
        return;
      }
      const size_t dot = end < 2 ? std::string::npos : prefix_.rfind('.', end - 2);
      end = dot == std::string::npos ? 0 : dot + 1;
    }
  }

 private:
  const Checkpoint& checkpoint_;
  const std::string& prefix_;
};

void CompleteNames(const Checkpoint& checkpoint, const std::string& prefix, DecoderSpec* spec) {
  const OuterNames names(checkpoint, prefix);
  const std::string weight = ".weight";
  if (!spec->head.tied) names.Complete(&spec->head.name, weight);
  names.Complete(&spec->head.bias, "");
  names.Complete(&spec->head.transform, weight);
  names.Complete(&spec->head.norm, weight);
  if (!spec->norm.final.empty()) spec->norm.final = prefix + spec->norm.final;
  names.Complete(&spec->pool.probe, "");
  names.Complete(&spec->pool.module, ".in_proj_weight");
  names.Complete(&spec->pool.norm, weight);
  names.Complete(&spec->pool.mlp_prefix, spec->mlp.up + weight);
  // Encoders are stored with and without a head.
  const std::string& first = spec->head.transform.empty() ? spec->head.name : spec->head.transform;
  if (!spec->attention.causal && checkpoint.Find(first + weight) == nullptr) spec->head = {};
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
  if (spec.latent.kv_rank > 0)
    return BlockPrefix(block) + a.Module() + ".kv_a_proj_with_mqa.weight";
  if (!a.qkv.empty()) return BlockPrefix(block) + a.qkv + ".weight";
  return BlockPrefix(block) + (name.ends_with(".k") ? a.k : a.v) + ".weight";
}

Network DescribeNetwork(const Checkpoint& checkpoint) {
  Network network;
  network.spec = MakeDecoderSpec(DescriptionOf(checkpoint), checkpoint.config());
  network.spec.head_caches = checkpoint.head_caches() && network.spec.latent.kv_rank == 0;
  const DecoderSpec& spec = network.spec;
  network.prefix = PrefixOf(checkpoint, spec);
  CompleteNames(checkpoint, network.prefix, &network.spec);
  if (!spec.embedding.name.empty()) {
    network.embedding = network.prefix + spec.embedding.name + ".weight";
    checkpoint.FindShaped(network.embedding, {spec.vocabulary, spec.hidden});
  }
  if (!spec.head.name.empty()) {
    network.head = spec.head.tied ? network.embedding : spec.head.name + ".weight";
    int64_t& rows = network.spec.head.rows;
    const CheckpointTensor& weight =
        checkpoint.FindShaped(network.head, {rows > 0 ? rows : -1, spec.hidden});
    rows = weight.entry->shape.front();
    if (!spec.head.bias.empty()) checkpoint.FindShaped(spec.head.bias, {spec.head.rows});
  }
  if (spec.HasFront()) CheckConstants(checkpoint, network.prefix, network.Front({}));
  CheckConstants(checkpoint, "", DecoderNorm(spec, {}));
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
