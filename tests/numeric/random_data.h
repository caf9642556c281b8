// Random tensors for the tests of this folder.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "lib/core/tensor.h"

namespace hif8 {

inline TensorView View(std::span<const float> values) {
  return {DType::kF32,
          {static_cast<int64_t>(values.size())},
          reinterpret_cast<const std::byte*>(values.data())};
}

inline std::vector<float> Normal(size_t n, double sigma, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, sigma);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(normal(random));
  return values;
}

// Magnitudes uniform in log2 over [low, high), either sign.
inline std::vector<float> LogUniform(size_t n, double low, double high, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> exponent(low, high);
  std::vector<float> values(n);
  for (float& v : values) {
    v = static_cast<float>(std::exp2(exponent(random))) * ((random() & 1) != 0 ? 1.0f : -1.0f);
  }
  return values;
}

// Any bit pattern: all exponents, subnormals, zeros, infinities and NaN.
inline std::vector<float> AnyBits(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& v : values) v = std::bit_cast<float>(static_cast<uint32_t>(random()));
  return values;
}

}  // namespace hif8
