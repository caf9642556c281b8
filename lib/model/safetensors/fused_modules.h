// Which Linears loaders run as one. Internal to this module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/model/model.h"
#include "lib/model/safetensors/decoder_spec.h"

namespace hif8 {

// Returns the module's name with another last component: "a.b" and "c" give "a.c".
std::string Renamed(std::string_view module, std::string_view last);

// True for a Linear of an expert, or for all of a block's in one tensor.
bool IsExpert(std::string_view module);

// Fills in Layer::fused of Linears: q, k and v, gate and up, and the projections of latent
// attention that read the block's input, where all of them are there; all experts of a block.
// Parts go by the names in `spec` (null: the network is not known) and by those that most families
// have. Of a head's cache it is the name of the whole.
void NameFusedModules(const DecoderSpec* spec, std::vector<Layer>* layers);

}  // namespace hif8
