// The recipes that come with the program.
#include <array>

#include "lib/quant/config.h"

namespace hif8 {

std::span<const BuiltInRecipe> BuiltInRecipes() {
  static constexpr std::array<BuiltInRecipe, 3> kRecipes = {{
      {"inference", "weights per channel and activations per tensor, scales from amax (default)",
       R"(version: 1
)"},
      {"cast", "weights per channel, activations converted directly: needs no data",
       R"(version: 1
activations: {rule: cast}
)"},
      {"pangu-qat", "MLP projections alone, per tensor, amax to 15, clipped; five blocks kept",
       R"(version: 1
weights: {granularity: tensor, target: 15}
activations: {target: 15, clip: true}
high_precision_layers: 5
only: [{match: 'mlp\.(gate|up|down)_proj', optional: true}]
)"},
  }};
  return kRecipes;
}

}  // namespace hif8
