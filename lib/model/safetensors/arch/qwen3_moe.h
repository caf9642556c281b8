// Qwen3 with a mixture of experts.
#pragma once

#include "lib/model/safetensors/architecture.h"

namespace hif8 {

inline constexpr Architecture kQwen3Moe = {
    .model_type = "qwen3_moe",
    .qkv_bias = "attention_bias",
    .output_bias = "attention_bias",
    .head_norms = true,
    .window = WindowRule::kListed,
    .experts = ExpertKeys::kQwen,
};

}  // namespace hif8
