// openPangu-Embedded: Llama with biases on q, k, v and o where `bias` is true.
#pragma once

#include "lib/model/safetensors/architecture.h"

namespace hif8 {

inline constexpr Architecture kPanguEmbedded = {
    .model_type = "PanguEmbedded",
    .qkv_bias = "bias",
    .output_bias = "bias",
};

}  // namespace hif8
