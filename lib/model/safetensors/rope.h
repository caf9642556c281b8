// Rotary position embedding: the angles by which pairs of a head's elements are turned.
// Sources of the formulas: RoFormer (arXiv 2104.09864); YaRN (arXiv 2309.00071); the scaling of
// Llama 3.1 as its configuration defines it.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/model/safetensors/model_config.h"

namespace hif8 {

struct Rope {
  std::vector<double> frequencies;  // radians per position, one for each pair of elements
  double magnitude = 1;             // sines and cosines are multiplied by it (YaRN, LongRoPE)
  double temperature = 1;           // attention scores are (YaRN with mscale_all_dim)
  bool interleaved = false;         // pairs are neighbours, not first and second half
  // LongRoPE: the frequencies for sequences of more than `short_length` tokens; else empty.
  std::vector<double> long_frequencies;
  int64_t short_length = 0;

  const std::vector<double>& FrequenciesFor(int64_t length) const {
    return length > short_length && !long_frequencies.empty() ? long_frequencies : frequencies;
  }
};

// Returns the object of config.json with the settings of RoPE, `rope_parameters` (or what that has
// for full attention) or `rope_scaling`; may be empty.
ModelConfig RopeSettings(const ModelConfig& config);

// `dimension` elements of a head are rotated. Throws kModel for a theta that is not above 1.
Rope PlainRope(double theta, int64_t dimension);

// With the scaling that config.json asks for. Throws kModel naming the type for scalings that are
// unknown.
Rope MakeRope(const ModelConfig& config, double theta, int64_t dimension);

// Cosines and sines of positions 0 ... length - 1, [length, dimension / 2] each, for sequences of
// that length or, of LongRoPE, on its side of the border.
struct RopeTable {
  std::vector<float> cosines, sines;
};
RopeTable MakeRopeTable(const Rope& rope, int64_t length);

}  // namespace hif8
