#include "lib/runtime/network_variants.h"

#include "lib/runtime/part_session.h"

namespace hif8 {

bool NetworkVariants::IsQuantized(const std::string& tensor, const LayerSet& layers) const {
  const int weight = checkpoint_.Locate(tensor).tensor->weight;
  if (weight < 0) return false;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] && checkpoint_.layers()[i].weight == weight) return true;
  }
  return false;
}

PartOptions NetworkVariants::Options(PartMode mode, const std::string& prefix,
                                     const std::vector<PartLayer>& part,
                                     const LayerSet& layers) const {
  std::vector<PartLayer> quantized;
  for (const PartLayer& layer : part) {
    const int index = checkpoint_.LayerIndex(prefix + layer.name);
    if (index >= 0 && layers[static_cast<size_t>(index)]) quantized.push_back(layer);
  }
  PartOptions options;
  options.mode = mode;
  options.inputs = QuantizedInputs(checkpoint_, quantized_, prefix, quantized);
  for (const PartLayer& layer : quantized) {
    const std::string tensor = prefix + layer.name + ".weight";
    if (checkpoint_.Locate(tensor).tensor != nullptr && IsQuantized(tensor, layers)) {
      options.weights.insert(layer.name);
    }
  }
  return options;
}

}  // namespace hif8
