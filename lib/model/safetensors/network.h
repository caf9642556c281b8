// The network that a checkpoint's tensors make up, where its architecture is known.
#pragma once

#include <string>
#include <utility>

#include "lib/model/safetensors/decoder.h"

namespace hif8 {

class Checkpoint;

struct Network {
  DecoderSpec spec;
  std::string prefix;          // of the decoder's modules: "model."
  std::string embedding;       // name of the embedding's tensor
  bool fused_experts = false;  // "experts.gate_up_proj" and "experts.down_proj" hold them all
  std::string head;            // name of the tensor of lm_head; the embedding's where they are tied

  std::string BlockPrefix(int64_t block) const {
    return prefix + "layers." + std::to_string(block) + ".";
  }
  std::string FusedExpertsPrefix(int64_t block) const {
    return BlockPrefix(block) + "mlp.experts.";
  }
  // Of the names that an expert's own tensors have or would have.
  std::string ExpertPrefix(int64_t block, int64_t expert) const {
    return BlockPrefix(block) + "mlp.experts." + std::to_string(expert) + ".";
  }
  // What is added to the scores of a block's experts when they are chosen.
  std::string CorrectionName(int64_t block) const {
    return BlockPrefix(block) + "mlp.gate.e_score_correction_bias";
  }
  PartGraph Block(int64_t block, PartOptions options) const {
    return DecoderBlock(spec, spec.experts.HasExperts(block), std::move(options));
  }
};

// Throws kModel when the architecture is unknown (listing the known ones) or not supported, or when
// a tensor that it needs is missing or has another shape.
Network DescribeNetwork(const Checkpoint& checkpoint);

}  // namespace hif8
