// Layers that loaders run as one module: one scheme for all of them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lib/quant/config_layers.h"
#include "lib/quant/plan.h"

namespace hif8 {

// Holds what a recipe decides about a layer.
struct LayerDecision {
  std::string reason;  // why it stays in high precision; empty: it is quantized
  LayerConfig config;
};

// Returns the positions in Model::layers() of all layers with the same Layer::fused, for each such
// module that is made of more than one.
std::vector<std::vector<size_t>> FusedModules(const Model& model);

// Gives the layers of each module one scheme: what any of their names matches holds for all, and
// where one stays, all do. `decide` decides for a layer whose patterns are matched by any of
// `names`. Returns what was changed, one sentence or none. Throws kUsage with
// FusedPolicy::kError instead of changing something.
using Decide = std::function<LayerDecision(size_t layer, std::span<const std::string> names)>;
std::vector<std::string> CompleteModules(const Model& model, const QuantConfig& config,
                                         const ParseContext& context, const Decide& decide,
                                         std::vector<LayerDecision>* decisions);

// Keeps the whole of each module that the plan quantizes a part of, since one of its layers cannot
// be quantized after all. Returns the names of the layers that were kept. Throws kUsage with
// FusedPolicy::kError instead; does nothing with kIgnore.
std::vector<std::string> KeepWholeModules(const Model& model, const QuantConfig& config,
                                          QuantPlan* plan);

}  // namespace hif8
