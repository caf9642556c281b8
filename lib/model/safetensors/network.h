// The network that a checkpoint's tensors make up, where its architecture is known.
#pragma once

#include <string>
#include <utility>

#include "lib/model/safetensors/decoder.h"

namespace hif8 {

class Checkpoint;

struct Network {
  DecoderSpec spec;            // names of what stands behind the last block are whole ones
  std::string prefix;          // of the decoder's other modules: "model."
  std::string embedding;       // name of the embedding's tensor, or empty
  bool fused_experts = false;  // all experts of a block are in two tensors
  std::string head;            // name of the head's tensor; the embedding's where they are tied

  std::string BlockPrefix(int64_t block) const {
    return prefix + spec.block_list + "." + std::to_string(block) + ".";
  }
  std::string FusedExpertsPrefix(int64_t block) const {
    return BlockPrefix(block) + spec.experts.prefix;
  }
  // Returns the beginning of the names that an expert's own tensors have or would have.
  std::string ExpertPrefix(int64_t block, int64_t expert) const {
    return FusedExpertsPrefix(block) + std::to_string(expert) + ".";
  }
  // Returns the tensor that makes what the cache `name` of a block holds.
  std::string CacheProducer(const std::string& name, int64_t block) const;
  // Returns the name of what is added to the scores of a block's experts when they are chosen.
  std::string CorrectionName(int64_t block) const {
    return BlockPrefix(block) + spec.experts.correction;
  }
  PartGraph Block(int64_t block, PartOptions options) const {
    return DecoderBlock(spec, spec.At(block).kind, std::move(options));
  }
  PartGraph Front(PartOptions options) const { return DecoderFront(spec, std::move(options)); }
  PartGraph Expert(PartOptions options) const {
    return DecoderExpert(spec, fused_experts, std::move(options));
  }
};

// Throws kModel when the architecture is unknown (listing the known ones) or not supported, or when
// a tensor that it needs is missing or has another shape.
Network DescribeNetwork(const Checkpoint& checkpoint);

}  // namespace hif8
