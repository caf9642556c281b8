// The parts of a decoder as graphs: block, final norm, head. All work on one sequence.
#pragma once

#include <vector>

#include "lib/model/safetensors/block_emitter.h"
#include "lib/model/safetensors/decoder_spec.h"

namespace hif8 {

// Inputs besides constants and scales: "hidden" [T, hidden], "mask" [T, T] (0, or -infinity where a
// position is not seen) and, where the kind has them, "cosines" and "sines" [T, pairs] and
// "temperatures" [T, 1]. Output "hidden_out". A block with experts lacks what they add; its outputs
// are "hidden_out", "normed" [T, hidden], what experts read, and "router" [T, experts], the logits
// for choosing them.
PartGraph DecoderBlock(const DecoderSpec& spec, BlockKind kind, PartOptions options);

// Builds one expert: "rows" [R, hidden] -> "rows_out". Its names are relative to the expert's
// module. `fused`: it is part of a tensor that holds all experts.
PartGraph DecoderExpert(const DecoderSpec& spec, bool fused, PartOptions options);

// Builds what makes the first hidden states of a network with HasFront(): "embedded" [T, hidden],
// rows of the embedding, or "pixel_values" [1, channels, size, size] -> "hidden_out".
PartGraph DecoderFront(const DecoderSpec& spec, PartOptions options);

// Builds "hidden" -> "normed" [R, hidden]: what stands behind the last block, and the head's input
// as an activation. R is T, or 1 where positions are pooled.
PartGraph DecoderNorm(const DecoderSpec& spec, PartOptions options);

// Builds "normed" -> "logits" [R, rows of the weight given]. Weight and bias may be given in
// pieces.
PartGraph DecoderHead(const DecoderSpec& spec, PartOptions options);

// Returns the layers of both.
std::vector<PartLayer> TailLayers(const DecoderSpec& spec);

// Returns the mask of a block, [length, length].
std::vector<float> AttentionMask(int64_t length, const MaskSpec& mask);

// Returns what queries are multiplied by, [length].
std::vector<float> Temperatures(int64_t length, const TemperatureSpec& temperature);

}  // namespace hif8
