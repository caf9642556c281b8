// The parts of a decoder as graphs: block, final norm, head. All work on one sequence.
#pragma once

#include "lib/model/safetensors/architecture.h"
#include "lib/model/safetensors/block_emitter.h"

namespace hif8 {

// Inputs besides constants and scales: "hidden" [T, hidden], "cosines" and "sines"
// [T, head_dim / 2], "mask" [T, T] (0, or -infinity where a position is not seen). Output
// "hidden_out". A block with experts lacks what they add; its outputs are "hidden_out", "normed"
// [T, hidden], what experts read, and "router" [T, experts], the logits for choosing them.
PartGraph DecoderBlock(const DecoderSpec& spec, bool experts, PartOptions options);

// One expert: "rows" [R, hidden] -> "rows_out". Its names are relative to the expert's module.
PartGraph DecoderExpert(const DecoderSpec& spec, PartOptions options);

// "hidden" -> "normed" [T, hidden]: the final norm, and the head's input as an activation.
PartGraph DecoderNorm(const DecoderSpec& spec, PartOptions options);

// "normed" -> "logits" [T, rows of the weight given]. The weight may be given in pieces.
PartGraph DecoderHead(const DecoderSpec& spec, PartOptions options);

// The mask of a block whose window is `window` (0: unlimited), [length, length].
std::vector<float> AttentionMask(int64_t length, int64_t window);

}  // namespace hif8
