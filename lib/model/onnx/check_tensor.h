// Whether a tensor's data is what its type and shape say. Internal to this folder.
#pragma once

#include <optional>

#include "lib/model/onnx/external_data.h"
#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

// Returns the size in bytes of that many elements of the widest type, or nothing when it cannot be
// counted (more than 2^63 - 1). Dimensions must not be negative.
std::optional<uint64_t> BytesOf(const Shape& shape);

// Throws kModel naming the tensor when it has an impossible shape, more or fewer values than that
// shape needs (raw, typed or external), or no type. Types that nothing here reads (strings, complex
// numbers, such as are newer than this program) need only the right number of typed values, or any
// raw bytes.
void CheckTensor(const onnx::TensorProto& tensor, const DataFiles& files);

// Checks a sparse tensor as well: its values are one dimension, its indices INT64, either one or as
// many as there are dimensions per value, inside of the shape and in rising order.
void CheckSparseTensor(const onnx::SparseTensorProto& sparse, const DataFiles& files);

}  // namespace hif8
