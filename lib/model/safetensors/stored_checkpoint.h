// The tensors of a checkpoint as they stand in its files, quantized ones too.
#pragma once

#include <filesystem>
#include <memory>

#include "lib/model/safetensors/coded_tensor.h"
#include "lib/model/safetensors/shard_list.h"
#include "lib/model/stored_model.h"

namespace hif8 {

// Tells more of tensors() than a report asks for.
class StoredCheckpoint : public StoredModel {
 public:
  // Returns the tensor of a file that holds the values or the codes.
  virtual const SafetensorsEntry& entry(size_t index) const = 0;
  // Returns the file of the scales; null where there are none.
  virtual const SafetensorsFile* scale_file(size_t index) const = 0;
  // Opens a tensor that has a format, to be decoded in parts. The formats must outlive it.
  virtual CodedTensor Open(size_t index) const = 0;
};

// Codes are tensors with scales beside them: X.weight_scale or X.weight_scale_inv of X.weight, in
// floats or powers of two (E8M0). Their format follows from the stored type; for U8 it is the one
// that config.json names, or the first of `formats`. Throws as FindShards.
std::unique_ptr<StoredCheckpoint> OpenStoredCheckpoint(const std::filesystem::path& path,
                                                       const FormatRegistry& formats);
// Does so with files that are open.
std::unique_ptr<StoredCheckpoint> OpenStoredCheckpoint(const std::filesystem::path& path,
                                                       ShardList files,
                                                       const FormatRegistry& formats);

}  // namespace hif8
