// Llama 2, 3 and what is built like them.
#pragma once

#include "lib/model/safetensors/architecture.h"

namespace hif8 {

inline constexpr Architecture kLlama = {
    .model_type = "llama",
    .qkv_bias = "attention_bias",
    .output_bias = "attention_bias",
    .mlp_bias = "mlp_bias",
};

}  // namespace hif8
