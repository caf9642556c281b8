// From the description of a model family and a checkpoint's config.json to a decoder.
#pragma once

#include <string_view>

#include "lib/model/safetensors/decoder_spec.h"
#include "lib/model/safetensors/description.h"
#include "lib/model/safetensors/model_config.h"

namespace hif8 {

// Returns the built-in description of the model type that config.json names, itself or in its
// `text_config`; null when there is none.
const Description* FindDescription(const ModelConfig& config);

// Throws kModel naming the key where config.json is incomplete, contradicts itself or asks for what
// is not supported (an activation function, a RoPE scaling).
DecoderSpec MakeDecoderSpec(const Description& description, const ModelConfig& config);

}  // namespace hif8
