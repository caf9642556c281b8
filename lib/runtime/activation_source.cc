#include "lib/runtime/activation_source.h"

#include "lib/core/error.h"

namespace hif8 {

std::vector<TensorStats> ActivationSource::CollectPropagated(std::span<const int>,
                                                             const Propagation&) {
  throw UsageError("propagate: quantized needs a network that runs block after block",
                   "it is for checkpoints of known architectures with --data; leave it out "
                   "(propagate: original)");
}

std::vector<Measurement> ActivationSource::MeasureVariants(
    const std::filesystem::path&, const std::map<int, QuantizedActivation>&,
    std::span<const LayerSet>, uint64_t) {
  throw UsageError("captured activations cannot tell what the network gives in the end",
                   "give --data instead of --activations");
}

}  // namespace hif8
