// A tensor in a file of its own, as in ONNX test data (test_data_set_0/input_0.pb).
#pragma once

#include <filesystem>
#include <string>

#include "lib/core/tensor.h"

namespace hif8 {

struct NamedTensor {
  std::string name;  // may be empty
  Tensor tensor;     // owns its memory
};

// Reads one serialized TensorProto. Throws kModel naming the file when it is none, is truncated, or
// is of a type that cannot be read (strings, complex numbers).
NamedTensor ReadTensorFile(const std::filesystem::path& path);

}  // namespace hif8
