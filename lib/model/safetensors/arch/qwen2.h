// Qwen2 and Qwen2.5: biases on q, k and v.
#pragma once

#include "lib/model/safetensors/architecture.h"

namespace hif8 {

inline constexpr Architecture kQwen2 = {
    .model_type = "qwen2",
    .qkv_bias = Architecture::kAlways,
    .window = WindowRule::kListed,
};

}  // namespace hif8
