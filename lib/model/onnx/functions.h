// Bodies of the functions of onnx_functions.h. Internal to this folder.
#pragma once

#include <cmath>
#include <optional>
#include <vector>

#include "lib/model/onnx/onnx_functions.h"
#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

// Describes how a format rounds magnitudes: positive values in rising order with 0 before them, and
// for each but the first the smallest fp32 magnitude that rounds to it (or beyond), saturating.
struct RoundingTable {
  std::vector<float> values;
  std::vector<float> thresholds;  // thresholds[i] belongs to values[i + 1]
};
RoundingTable MakeRoundingTable(const NumberFormat& format);

// A grid that exponents alone decide: a magnitude of exponent e is rounded to a multiple of 2^(e -
// m) or least_step, whichever is larger, m = fraction_bits less one for every edge (1 or more)
// below |e|; no result is larger than `most`.
struct BandedGrid {
  float most = 0;
  float least_step = 0;  // a power of two
  int fraction_bits = 0;
  std::vector<int> edges;
  bool ties_to_even = false;  // else away from zero

  // Computes for a finite magnitude what the function's body does.
  float Round(float magnitude) const;
  // Returns whether every step is least_step.
  bool uniform() const { return most < std::ldexp(least_step, fraction_bits + 1); }
};
// Returns the format's grid if it is such a one, proved on both sides of every threshold.
std::optional<BandedGrid> FindBandedGrid(const RoundingTable& table);

// Describes how scales are found in an activation: the largest finite magnitude of each group along
// `axis`, or of the whole dimension, mapped to the target. Inputs: x, then where grouped and edge
// is 0 the indices of each group's elements [groups, edge] and each element's group [elements],
// then the target unless the format's scales are E8M0, then the global scale where it has one. The
// result broadcasts against x.
struct ScaleFunction {
  int64_t axis = -1;
  bool grouped = false;
  bool power_of_two = false;
  int64_t edge = 0;  // of groups along a dimension whose size is known only when the model runs

  std::string Name() const;
};
onnx::FunctionProto MakeScaleFunction(const NumberFormat& format, const ScaleFunction& how,
                                      int64_t opset);

// Scales that are not any fp32 are UINT8 codes, with a scalar global scale as third input where the
// format has one; packed formats have two codes a byte along the last dimension and a scale for
// every element.
// The rounding is computed from the exponent where the format allows it, else searched for in the
// table of thresholds.
onnx::FunctionProto MakeDequantizeFunction(const NumberFormat& format, int64_t opset);
onnx::FunctionProto MakeQuantizeDequantizeFunction(const NumberFormat& format, int64_t opset);

}  // namespace hif8
