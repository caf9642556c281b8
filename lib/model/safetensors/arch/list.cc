#include "lib/model/safetensors/arch/deepseek_v3.h"
#include "lib/model/safetensors/arch/llama.h"
#include "lib/model/safetensors/arch/mistral.h"
#include "lib/model/safetensors/arch/pangu_embedded.h"
#include "lib/model/safetensors/arch/qwen2.h"
#include "lib/model/safetensors/arch/qwen3.h"
#include "lib/model/safetensors/arch/qwen3_moe.h"

namespace hif8 {

std::span<const Architecture> Architectures() {
  static constexpr Architecture kAll[] = {kDeepSeekV3, kLlama, kMistral, kPanguEmbedded,
                                          kQwen2,      kQwen3, kQwen3Moe};
  return kAll;
}

}  // namespace hif8
