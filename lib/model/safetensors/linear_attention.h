// Linear attention by the gated delta rule (Gated DeltaNet, arXiv 2412.06464) as part of a block's
// graph. Internal to this module.
#pragma once

#include <string>

#include "lib/model/safetensors/block_emitter.h"
#include "lib/model/safetensors/decoder_spec.h"

namespace hif8 {

// Writes what a block with linear attention adds to the residual stream, from its normalised input
// [T, hidden]. Sources: the paper; Qwen3-Next's configuration for names and layout.
std::string LinearAttention(const DecoderSpec& spec, BlockEmitter& emitter,
                            const std::string& normed);

}  // namespace hif8
