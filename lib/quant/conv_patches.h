// What a convolution multiplies its kernel by, as rows of a matrix product.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "lib/core/tensor.h"
#include "lib/model/model.h"

namespace hif8 {

// Returns patches of x [samples, channels, ...] as rows of channels x kernel elements, in the order
// of the kernel's: of each sample at most `most` output positions, spread evenly over all. Nothing
// where the window does not fit x.
std::optional<std::vector<float>> Patches(const ConvWindow& window, const Shape& shape,
                                          std::span<const float> x, size_t most);

}  // namespace hif8
