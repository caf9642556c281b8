// What the layers of a checkpoint are for: by the description of its network, else by their names.
// Internal to this module.
#pragma once

#include <vector>

#include "lib/model/model.h"
#include "lib/model/safetensors/model_config.h"
#include "lib/model/safetensors/network.h"

namespace hif8 {

// Sets `op`, `option`, `block`, `macs`, `beside` and the reasons of layers with a weight, and the
// channels of weights that hold all experts. `network` null: there is no description. Layers that
// the network runs have their input already.
void AssignRoles(const Network* network, const ModelConfig& config, std::vector<Layer>* layers,
                 std::vector<Weight>* weights);

}  // namespace hif8
