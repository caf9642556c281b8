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
  double magnitude = 1;             // sines and cosines are multiplied by it (YaRN)
  double temperature = 1;           // attention scores are (YaRN with mscale_all_dim)
};

// From `rope_theta` and `rope_scaling` (or `rope_parameters`) of config.json, for `dimension`
// rotated elements of a head. Throws kModel naming the type for scalings that depend on the length
// of the input or that are unknown.
Rope MakeRope(const ModelConfig& config, int64_t dimension);

// Cosines and sines of positions 0 ... length - 1, [length, dimension / 2] each.
struct RopeTable {
  std::vector<float> cosines, sines;
};
RopeTable MakeRopeTable(const Rope& rope, int64_t length);

}  // namespace hif8
