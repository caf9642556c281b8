// How a convolution's kernel goes over its input.
#pragma once

#include <optional>

#include "lib/model/model.h"
#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

// Returns the window of a Conv with a weight of that shape; nothing where its attributes do not
// fit.
std::optional<ConvWindow> WindowOf(const onnx::NodeProto& node, const Shape& weight);

}  // namespace hif8
