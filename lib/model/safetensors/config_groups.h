// Parts of a quantization_config in the form of compressed-tensors. Internal to this module.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/model/safetensors/checkpoint.h"
#include "lib/model/safetensors/json_text.h"
#include "lib/model/safetensors/quantization_config.h"

namespace hif8 {

using OrderedJson = nlohmann::ordered_json;

// Layers that have one scheme, by index into layers().
struct SchemeGroup {
  LayerScheme scheme;
  std::vector<int> layers;
};

// The schemes of the layers. The first may stand for all Linear: that of most layers, experts
// aside, which differ from the rest more often than they do not.
std::vector<SchemeGroup> GroupLayers(const Checkpoint& source,
                                     const std::map<int, LayerScheme>& layers);

// Full names of the layers, or one pattern for those that it matches without matching any other
// Linear, and then the same of the modules that loaders make of them. `merged` names those: by its
// value for Layer::fused's last component, "" for none.
OrderedJson LayerTargets(const Checkpoint& source, const std::vector<int>& layers,
                         const std::map<std::string, std::string>& merged);

// Arguments of the weights and of the inputs; null where inputs are not quantized.
OrderedJson WeightArguments(const LayerScheme& scheme);
OrderedJson InputArguments(const LayerScheme& scheme);

// Every Linear that is not quantized, and the modules that loaders make of them. A tied head has no
// tensor of its own, but readers build a Linear for it all the same.
OrderedJson KeptLinears(const Checkpoint& source, const std::map<int, LayerScheme>& layers,
                        const std::map<std::string, std::string>& merged);

// config.json of the source with this quantization_config in the place of its own or at the end;
// without any when it is null.
std::string ConfigText(const Checkpoint& source, const OrderedJson& quantization);

}  // namespace hif8
