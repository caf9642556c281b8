// fp16 and bf16 to fp32, exactly, compiled for every instruction set and chosen at run time.
#pragma once

#include <cstddef>

namespace hif8 {

// `src` holds n values of two bytes each, at any address.
void WidenF16(const std::byte* src, size_t n, float* dst);
void WidenBF16(const std::byte* src, size_t n, float* dst);

}  // namespace hif8
