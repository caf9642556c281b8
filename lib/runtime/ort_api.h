// ONNX Runtime's C++ API as every file of this module includes it. Internal: no public header
// includes this one.
#pragma once

// The plug-in gets the API from whoever loads it, so it is never initialised by itself: the
// session does it for the programs, RegisterCustomOps for the plug-in.
#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>
#undef ORT_API_MANUAL_INIT

#include <optional>
#include <string>
#include <vector>

#include "lib/core/dtype.h"
#include "lib/core/tensor.h"

namespace hif8 {

// Returns the project's name of an engine's element type; nothing for those without one (strings,
// complex numbers, 4-bit integers).
std::optional<DType> FromOrt(ONNXTensorElementDataType type);
ONNXTensorElementDataType ToOrt(DType dtype);

// Returns a view of an engine's tensor. The element type must have a name here (kModel otherwise).
TensorView ViewOf(Ort::ConstValue value);

// Returns the names of a session's inputs and outputs, in the model's order. (Ort::Session has such
// members only in later versions than the oldest that is built with, 1.21.)
std::vector<std::string> InputNames(const Ort::Session& session);
std::vector<std::string> OutputNames(const Ort::Session& session);

}  // namespace hif8
