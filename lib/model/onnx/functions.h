// Bodies of the functions of onnx_functions.h. Internal to this folder.
#pragma once

#include <optional>
#include <vector>

#include "lib/model/onnx/onnx_functions.h"
#include "lib/model/onnx/onnx_proto.h"

namespace hif8 {

// How a format rounds magnitudes: positive values in rising order with 0 before them, and for each
// but the first the smallest fp32 magnitude that rounds to it (or beyond), saturating.
struct RoundingTable {
  std::vector<float> values;
  std::vector<float> thresholds;  // thresholds[i] belongs to values[i + 1]
};
RoundingTable MakeRoundingTable(const NumberFormat& format);

// A grid that exponents alone decide: a magnitude of exponent e is rounded, ties away from zero, to
// a multiple of 2^(e - m), m = fraction_bits less one for every edge below |e|.
struct BandedGrid {
  float zero_below = 0;  // smaller magnitudes round to 0; a power of two
  float clamp = 0;       // larger ones behave as this one
  float most = 0;        // the largest result
  int least_exponent = 0;
  int fraction_bits = 0;
  std::vector<int> edges;

  // What the function's body computes for a finite magnitude.
  float Round(float magnitude) const;
};
// The format's grid if it is such a one, proved on both sides of every threshold.
std::optional<BandedGrid> FindBandedGrid(const NumberFormat& format, const RoundingTable& table);

// The rounding is computed from the exponent where the format allows it, else searched for in the
// table of thresholds.
onnx::FunctionProto MakeDequantizeFunction(const NumberFormat& format, int64_t opset);
onnx::FunctionProto MakeQuantizeDequantizeFunction(const NumberFormat& format, int64_t opset);

}  // namespace hif8
