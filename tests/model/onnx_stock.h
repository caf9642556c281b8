// Runs model files in an ONNX Runtime session without any operator of the project's own.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lib/core/tensor.h"

namespace hif8 {

struct StockTensor {
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<float> values;  // converted
};

Tensor FloatInput(const Shape& shape, const std::vector<float>& values, DType dtype = DType::kF32);
Tensor IntInput(const Shape& shape, const std::vector<int64_t>& values);
Tensor BoolInput(bool value);

// Outputs by name (of float types only). Fails the test when the session cannot be made or run.
std::map<std::string, StockTensor> RunStock(const std::filesystem::path& model,
                                            const std::map<std::string, Tensor>& inputs);

// The HiF8 grid as its golden table gives it.
std::vector<float> GoldenValues();
// x rounded to the nearest value of that grid, ties away from zero, saturating: by search.
float GoldenRound(float x, const std::vector<float>& grid);

}  // namespace hif8
