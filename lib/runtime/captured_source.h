// Activations that another program captured: statistics without a graph, for any architecture.
#pragma once

#include <filesystem>
#include <memory>

#include "lib/core/log.h"
#include "lib/model/safetensors/checkpoint.h"
#include "lib/numeric/number_format.h"
#include "lib/runtime/activation_source.h"

namespace hif8 {

// Opens a folder of samples in natural order of their names, of which the first `samples` are used
// (0: all). A sample is a .safetensors file or a folder of them. A tensor's name is a layer's (a
// module's) name, its values that layer's input as the network saw it, of any float type and shape,
// or the name of a cache and what it holds. A layer's input may be in several files of a sample.
// Other tensors are reported once and ignored. Measure() compares inputs and the outputs of
// Linears; there is no network to run. Throws kModel when the folder holds no such file, or a file
// is damaged. All arguments must outlive the result.
std::unique_ptr<ActivationSource> MakeCapturedSource(std::shared_ptr<const Checkpoint> model,
                                                     const std::filesystem::path& folder,
                                                     size_t samples, const FormatRegistry& formats,
                                                     LogSink& log);

}  // namespace hif8
