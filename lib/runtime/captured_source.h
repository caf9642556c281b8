// Activations that another program captured: statistics without a graph, for any architecture.
#pragma once

#include <filesystem>
#include <memory>

#include "lib/core/log.h"
#include "lib/model/model.h"
#include "lib/numeric/number_format.h"
#include "lib/runtime/activation_source.h"

namespace hif8 {

// Opens a folder of .safetensors files, one sample each, in natural order of their names, of which
// the first `samples` are used (0: all). A tensor's name is a layer's (a module's) name, its values
// that layer's input as the network saw it, of any float type and shape. Tensors that are no
// layer's input are reported once and ignored. Measure() compares the inputs themselves: there is
// no network to run. Throws kModel when the folder holds no such file, or a file is damaged. All
// arguments must outlive the result.
std::unique_ptr<ActivationSource> MakeCapturedSource(const Model& model,
                                                     const std::filesystem::path& folder,
                                                     size_t samples, LogSink& log);

}  // namespace hif8
