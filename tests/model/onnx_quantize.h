// A slow quantizer of the tests' own: HiF8 by search in the golden table, amax to 16.
#pragma once

#include <vector>

#include "lib/model/onnx/onnx_model.h"
#include "lib/model/onnx/onnx_writer.h"

namespace hif8 {

class ReferenceQuantizer {
 public:
  explicit ReferenceQuantizer(const OnnxModel& model);

  EncodedWeight Encode(int weight) const;
  std::vector<float> Decoded(const EncodedWeight& encoded) const;
  std::vector<float> Round(std::vector<float> x, float scale) const;
  // Every supported layer (optional ones as well), every activation with scale 1 / 16.
  OnnxWritePlan PlanAll() const;

 private:
  const OnnxModel& model_;
  std::vector<float> grid_;
};

// [rows, inner] x [inner, columns], summed in double.
std::vector<float> Product(const std::vector<float>& a, const std::vector<float>& b, size_t rows,
                           size_t inner, size_t columns);

}  // namespace hif8
