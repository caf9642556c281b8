// The network that a checkpoint's tensors make up, where its architecture is known.
#pragma once

#include <string>

#include "lib/model/safetensors/decoder.h"

namespace hif8 {

class Checkpoint;

struct Network {
  DecoderSpec spec;
  std::string prefix;     // of the decoder's modules: "model."
  std::string embedding;  // name of the embedding's tensor
  std::string head;       // name of the tensor of lm_head; the embedding's where they are tied

  std::string BlockPrefix(int64_t block) const {
    return prefix + "layers." + std::to_string(block) + ".";
  }
};

// Throws kModel when the architecture is unknown (listing the known ones) or not supported, or when
// a tensor that it needs is missing or has another shape.
Network DescribeNetwork(const Checkpoint& checkpoint);

}  // namespace hif8
