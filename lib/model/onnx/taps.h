// Taps in a graph that is being changed. Internal to this folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/model/onnx/graph_edit.h"

namespace hif8 {

// Operands of layers that read an activation.
struct ActivationReader {
  int layer;
  int input;  // of the layer's node
};
// Lists the readers of each activation, in the order of their nodes.
std::vector<std::vector<ActivationReader>> ActivationReaders(const OnnxModel::Impl& model);

onnx::NodeProto MakeTap(std::string_view op, int id, std::vector<std::string> inputs,
                        const std::string& output);

}  // namespace hif8
