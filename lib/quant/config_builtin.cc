// The recipes that come with the program.
#include <array>

#include "lib/quant/config.h"

namespace hif8 {

std::span<const BuiltInRecipe> BuiltInRecipes() {
  static constexpr std::array<BuiltInRecipe, 7> kRecipes = {{
      {"inference", "weights per channel and activations per tensor, scales from amax (default)",
       R"(version: 1
)"},
      {"cast", "weights per channel, activations converted directly: needs no data",
       R"(version: 1
activations: {rule: cast}
)"},
      {"weight-only", "weights per channel alone, activations stay as they are: needs no data",
       R"(version: 1
activations: {rule: off}
)"},
      {"pangu-qat", "MLP projections alone, per tensor, amax to 15, clipped; five blocks kept",
       R"(version: 1
weights: {granularity: tensor, target: 15}
activations: {target: 15, clip: true}
high_precision_layers: 5
only: [{match: 'mlp\.(gate|up|down)_proj', optional: true}]
)"},
      {"kv-cache", "cached keys and values alone; weights and activations stay",
       R"(version: 1
kv_cache: {rule: max}
only: ['\.self_attn\.(k|v|kv_latent|k_rope)(\.\d+)?$']
)"},
      {"w4a8-moe", "experts MXFP4 with MXFP8 activations, shared experts MXFP8, the rest HiF8",
       R"(version: 1
overrides:
  - {match: '\.shared_experts?\.', optional: true,
     weights: {format: mxfp8}, activations: {format: mxfp8}}
  - {match: '\.experts\b', optional: true,
     weights: {format: mxfp4}, activations: {format: mxfp8}}
)"},
      {"w4a4-moe", "experts MXFP4 with MXFP4 activations, shared experts MXFP8, the rest HiF8",
       R"(version: 1
overrides:
  - {match: '\.shared_experts?\.', optional: true,
     weights: {format: mxfp8}, activations: {format: mxfp8}}
  - {match: '\.experts\b', optional: true,
     weights: {format: mxfp4}, activations: {format: mxfp4}}
)"},
  }};
  return kRecipes;
}

}  // namespace hif8
