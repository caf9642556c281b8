// The tensors of a checkpoint as they stand in its files, quantized ones too.
#pragma once

#include <filesystem>
#include <memory>

#include "lib/model/stored_model.h"

namespace hif8 {

// Codes are tensors with scales beside them: X.weight_scale or X.weight_scale_inv of X.weight, in
// floats or powers of two (E8M0). Their format follows from the stored type; for U8 it is the one
// that config.json names, or the first of `formats`. Throws as FindShards.
std::unique_ptr<StoredModel> OpenStoredCheckpoint(const std::filesystem::path& path,
                                                  const FormatRegistry& formats);

}  // namespace hif8
