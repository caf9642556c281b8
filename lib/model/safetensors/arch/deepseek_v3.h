// DeepSeek-V3 and R1: latent attention, experts in groups.
#pragma once

#include "lib/model/safetensors/architecture.h"

namespace hif8 {

inline constexpr Architecture kDeepSeekV3 = {
    .model_type = "deepseek_v3",
    .qkv_bias = "attention_bias",
    .output_bias = "attention_bias",
    .experts = ExpertKeys::kDeepSeek,
    .latent_attention = true,
};

}  // namespace hif8
