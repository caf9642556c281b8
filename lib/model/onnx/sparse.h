// Sparse tensors, of which nothing but this file and the gate knows. Internal to this folder.
#pragma once

#include <vector>

#include "lib/model/onnx/external_data.h"
#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

// Returns the row-major position of each value of a sparse tensor; UINT64_MAX for an index outside
// of the shape. Throws kModel naming the tensor when its indices are not INT64 or have another rank
// than the format allows.
std::vector<uint64_t> SparsePositions(const onnx::SparseTensorProto& sparse,
                                      const DataFiles& files);

// Puts the dense tensor in the place of every sparse initializer and every sparse Constant, in all
// graphs and functions, as ONNX Runtime does when it loads a model: what follows knows one kind of
// tensor. The model must have passed CheckModel(). Throws kModel naming the tensor when it would be
// larger than 2 GB or its type has no number of bytes per element.
void MakeSparseTensorsDense(const DataFiles& files, onnx::ModelProto* model);

}  // namespace hif8
