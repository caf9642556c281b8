// Rounds weights so that the errors of a layer's outputs are small, rather than those of the
// weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/numeric/number_format.h"
#include "lib/quant/second_moments.h"

namespace hif8 {

// A weight as the matrix of a product y = W x, with the scales of its tiles.
struct MatrixWeight {
  std::span<const float> values;  // [rows, inputs], row-major
  size_t rows = 0;
  size_t inputs = 0;
  std::span<const float> scales;  // one per tile, row-major, as TileLayout::Tiles orders them
  TileScales::Tile tile{1, 0};    // rows x inputs that share a scale; edges may exceed the matrix
};

// Returns what is added to the diagonal, as a share of its mean: 0.1 from two rows per input on,
// more the fewer there are (inputs / (4 rows)), at most 3.
double DampingOf(const SecondMoments& moments);

// True when there are too few rows to do better than rounding to nearest: below 1/8 row per input.
bool TooFewRows(const SecondMoments& moments);

// Returns codes of the weight, [rows, inputs]: those of GPTQ (arXiv 2210.17323) with inputs in
// falling order of their moments, in the form of arXiv 2307.13304 that needs no inverse, then of
// `passes` passes of coordinate descent on the same damped moments, which accepts only what makes
// (w - q)ᵀ H (w - q) smaller. Inputs that are always zero are rounded to nearest. Each row depends
// on nothing but its own values, so that the result is the same whatever the number of threads.
// Needs 16 bytes for each entry of the moments. Throws kModel when the moments are not finite.
std::vector<uint8_t> RoundCompensated(const NumberFormat& format, const MatrixWeight& weight,
                                      const SecondMoments& moments, int passes = 2);

}  // namespace hif8
