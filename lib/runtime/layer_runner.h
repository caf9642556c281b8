// One layer on its own, with whatever input and weight it is given.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lib/core/tensor.h"
#include "lib/runtime/activation_source.h"

namespace hif8 {

class LayerRunner {
 public:
  // Returns null where the layer cannot stand alone. Throws as Session.
  static std::unique_ptr<LayerRunner> Make(const ActivationSource& source, int layer);
  ~LayerRunner();
  LayerRunner(const LayerRunner&) = delete;
  LayerRunner& operator=(const LayerRunner&) = delete;

  // Returns the layer's output as fp32 values. `weight` has the stored weight's shape.
  std::vector<float> Run(std::span<const float> x, const Shape& x_shape,
                         std::span<const float> weight, const Shape& weight_shape);

 private:
  LayerRunner();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hif8
