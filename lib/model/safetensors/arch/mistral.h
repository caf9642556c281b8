// Mistral: Llama with a sliding window.
#pragma once

#include "lib/model/safetensors/architecture.h"

namespace hif8 {

inline constexpr Architecture kMistral = {
    .model_type = "mistral",
    .window = WindowRule::kEvery,
};

}  // namespace hif8
