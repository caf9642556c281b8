#pragma once

#include <map>
#include <string>

#include "lib/core/tensor.h"

namespace hif8 {

// Holds what a graph's inputs are fed with.
using NamedTensors = std::map<std::string, Tensor>;

}  // namespace hif8
