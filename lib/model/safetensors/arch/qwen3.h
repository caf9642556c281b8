// Qwen3, dense: q and k are normalised head by head.
#pragma once

#include "lib/model/safetensors/architecture.h"

namespace hif8 {

inline constexpr Architecture kQwen3 = {
    .model_type = "qwen3",
    .qkv_bias = "attention_bias",
    .output_bias = "attention_bias",
    .head_norms = true,
    .default_head_dim = 128,
    .window = WindowRule::kListed,
};

}  // namespace hif8
