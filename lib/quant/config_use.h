// Whether a recipe's settings have anything to work on.
#pragma once

#include "lib/core/log.h"
#include "lib/model/model.h"
#include "lib/quant/config.h"

namespace hif8 {

// No setting is ignored in silence. Throws one kUsage that lists the settings, other than the
// defaults, that this model has nothing for (its KV cache, experts, images for a checkpoint, ...);
// warns of those that have no effect beside the rest of the recipe.
void CheckUse(const QuantConfig& config, const Model& model, const ParseContext& context,
              LogSink& log);

}  // namespace hif8
