// Scales as files hold them, where they are not any fp32: powers of two (E8M0), or codes of another
// number format over one fp32 number of the whole tensor, the global scale:
//   value = code * scale / global scale
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/numeric/number_format.h"

namespace hif8 {

// Returns the global scale of a tensor whose largest magnitude is `amax`, mapped to `target`: with
// it that tile has the largest scale of the format. Smaller where the smallest scale would not be a
// normal fp32; 1 when amax is 0, and of formats that have none.
float GlobalScale(const NumberFormat& format, float amax, float target);

// Returns the code of the scale of a tile with that largest magnitude; never that of 0.
uint8_t ScaleCodeFromAmax(const NumberFormat& format, float amax, float target, float global_scale);
// Returns the code of a scale that is ScaleValue of one.
uint8_t ScaleCode(const NumberFormat& format, float scale, float global_scale);
// Returns what a code stands for, divided by the global scale.
float ScaleValue(const NumberFormat& format, uint8_t code, float global_scale);

// Convert all scales of a tensor.
std::vector<uint8_t> ScaleCodes(const NumberFormat& format, std::span<const float> scales,
                                float global_scale);
std::vector<float> ScaleValues(const NumberFormat& format, std::span<const uint8_t> codes,
                               float global_scale);

}  // namespace hif8
