// Large tensors stay in the mapped model file. Internal to this folder.
#pragma once

#include <cstdint>

#include "lib/core/mapped_file.h"
#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

// Replaces the raw data of at least `from_bytes` bytes of the graph's initializers by references to
// where the same bytes are in the model's own file, `file`, of which `model` is the parsed content.
void ReferToMappedFile(const MappedFile& file, uint64_t from_bytes, onnx::ModelProto* model);

}  // namespace hif8
