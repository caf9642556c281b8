// Plain small floats: sign, exponent, mantissa, denormals; rounded to nearest even, saturating.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/numeric/number_format.h"

namespace hif8 {

// Says which codes are not numbers.
enum class Specials {
  kIeee,     // all exponent bits set: infinity and NaN
  kNanOnly,  // all exponent and mantissa bits set: NaN; no infinity (OCP "FN")
  kNone      // every code is a number
};

struct Minifloat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials;

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  // Returns the value of a code.
  float Decode(uint8_t code) const;
  // The code of x. Where the format has no NaN, NaN becomes zero; where it has no infinity, or when
  // saturating, an infinity becomes the largest finite value (OCP 8-bit floating point, 1.0).
  uint8_t Encode(float x, Overflow overflow) const;
  // Returns the code of the largest finite value.
  uint8_t LargestCode() const;
};

// Makes a format with such elements.
std::shared_ptr<const NumberFormat> MakeMinifloatFormat(const Minifloat& elements, std::string name,
                                                        std::string description,
                                                        const FormatStorage& storage);

}  // namespace hif8
