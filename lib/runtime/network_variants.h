// Networks of a checkpoint in which some layers are quantized. Internal to this module.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/model/safetensors/block_emitter.h"
#include "lib/model/safetensors/checkpoint.h"
#include "lib/runtime/activation_source.h"

namespace hif8 {

class NetworkVariants {
 public:
  // The arguments must outlive the object.
  NetworkVariants(const Checkpoint& checkpoint, const std::map<int, QuantizedActivation>& quantized)
      : checkpoint_(checkpoint), quantized_(quantized) {}

  // Tells whether that tensor's values come from the written file where `layers` are quantized.
  bool IsQuantized(const std::string& tensor, const LayerSet& layers) const;
  // Says how a part, whose layers are `part`, is run.
  PartOptions Options(PartMode mode, const std::string& prefix, const std::vector<PartLayer>& part,
                      const LayerSet& layers) const;

 private:
  const Checkpoint& checkpoint_;
  const std::map<int, QuantizedActivation>& quantized_;
};

}  // namespace hif8
