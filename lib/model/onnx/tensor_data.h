// The values of constant tensors, however a file stores them. Internal to this folder.
#pragma once

#include <optional>
#include <vector>

#include "lib/core/tensor.h"
#include "lib/model/onnx/external_data.h"
#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

// Returns the tensor's values in its own dtype. External and raw values are referred to, not
// copied: the result is valid as long as the message (or its own owner) is. Throws kModel naming
// the tensor when type, shape and number of bytes do not fit together.
Tensor ReadTensor(const onnx::TensorProto& tensor, const DataFiles& files);

// Returns the bytes of a tensor of four-bit elements: two a byte, the first in the low half,
// whatever its dimensions. Otherwise as ReadTensor.
Tensor ReadHalfBytes(const onnx::TensorProto& tensor, const DataFiles& files);

// Returns a tensor of INT64 or INT32 as numbers (shapes, axes); nothing when it is none.
std::optional<std::vector<int64_t>> ReadInts(const onnx::TensorProto& tensor,
                                             const DataFiles& files);

// The tensor that a Constant node holds, under `name`; nothing for strings and sparse tensors.
std::optional<onnx::TensorProto> ConstantNodeTensor(const onnx::NodeProto& node,
                                                    const std::string& name);

}  // namespace hif8
