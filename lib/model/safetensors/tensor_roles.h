// What a tensor of a checkpoint is, judged by its name and shape: works for any architecture.
#pragma once

#include <string>
#include <string_view>

#include "lib/core/tensor.h"

namespace hif8 {

enum class TensorRole {
  kLinear,     // X.weight of shape (out, in)
  kHead,       // the same, giving the logits
  kRouter,     // the same, choosing experts
  kEmbedding,  // X.weight of shape (entries, width)
  kExperts,    // fused experts, (experts, out, in) or (experts, in, out)
  kConv,       // X.weight of a convolution, (out, in / groups, sizes of the kernel)
  kOther       // norms, biases, buffers
};

struct TensorPlace {
  TensorRole role = TensorRole::kOther;
  std::string module;  // the tensor's name without ".weight"
  int block = -1;      // N of `layers.N.` outside vision and audio towers, -1: none
  bool tower = false;  // of what reads images or sounds
  bool draft = false;  // of multi-token prediction
};

TensorPlace PlaceTensor(std::string_view name, const Shape& shape);

}  // namespace hif8
