// Inputs whose first dimension is time. Internal to this folder.
#pragma once

#include <string>
#include <unordered_set>

#include "lib/model/onnx/external_data.h"
#include "lib/model/onnx/scopes.h"

namespace hif8 {

// Returns the model's inputs whose first dimension is the one along which an LSTM, GRU or RNN hands
// its state on: a slice of such an input is no sample, so it is never cut. The dimension is
// followed from the recurrent operator back to the input through operators that keep it apart:
// element-wise ones, Transpose, Squeeze, Unsqueeze, MatMul, look-ups, other recurrent operators,
// and Reshape that copies it.
std::unordered_set<std::string> FindTimeFirstInputs(const Scopes& scopes, const DataFiles& files);

}  // namespace hif8
