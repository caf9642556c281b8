// Conversion of models of old operator sets. Internal to this folder.
#pragma once

#include <string>

#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

// Converts the model from an operator set below 9 to 9, the first in which the functions' bodies
// exist. Operators that did not change are kept, those of which the meaning is known are rewritten.
// On failure the model stays as it was, and the result says why; "" on success.
std::string ConvertToFunctionOpset(onnx::ModelProto* model);

}  // namespace hif8
