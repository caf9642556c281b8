#include "lib/runtime/activation_source.h"

#include "lib/core/error.h"

namespace hif8 {

std::vector<TensorStats> ActivationSource::CollectPropagated(std::span<const int>,
                                                             const Propagation&) {
  throw UsageError("propagate: quantized needs a network that runs block after block",
                   "it is for checkpoints of known architectures with --data; leave it out "
                   "(propagate: original)");
}

}  // namespace hif8
