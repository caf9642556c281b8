// What the types of stored codes and scales say about the format that they belong to.
#pragma once

#include <string>
#include <vector>

#include "lib/core/tensor.h"
#include "lib/numeric/number_format.h"

namespace hif8 {

// Returns whether scales of the format are stored in that type.
bool AreScales(const NumberFormat& format, DType dtype);
// Returns the numbers that stored scales of the format stand for; AreScales is true of their type.
// `global`: one float that they are stored over, of kCodes; else without elements.
std::vector<float> ScaleNumbers(const NumberFormat& format, const TensorView& stored,
                                const TensorView& global);
// Stands for `global` where there is none.
inline const TensorView kNoGlobalScale{DType::kF32, {0}, nullptr};

// Codes of one tensor by their types: a predicate for FindFormat, true of each format that files
// hold in that way.
struct CodesInFile {
  DType codes;
  bool packed;  // two a byte
  DType scales;
  std::string unnamed;  // the format of codes whose type says nothing

  bool operator()(const NumberFormat& format) const;
};

}  // namespace hif8
