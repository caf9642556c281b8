#include "tests/model/onnx_stock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "lib/runtime/ort_api.h"
#include "tests/paths.h"

namespace hif8 {
namespace {

Ort::Env& StockEnvironment() {
  static Ort::Env& env = *new Ort::Env(ORT_LOGGING_LEVEL_ERROR, "stock");
  return env;
}

StockTensor ToStock(const Ort::Value& value) {
  StockTensor tensor;
  const TensorView view = ViewOf(value.GetConst());
  tensor.dtype = view.dtype;
  tensor.shape = view.shape;
  if (!IsFloat(view.dtype)) return tensor;
  tensor.values.resize(view.size());
  ConvertToFloat(view.dtype, view.data, view.size(), tensor.values.data());
  return tensor;
}

}  // namespace

Tensor FloatInput(const Shape& shape, const std::vector<float>& values, DType dtype) {
  EXPECT_EQ(values.size(), ElementCount(shape));
  std::byte* data = nullptr;
  Tensor tensor = Tensor::Allocate(dtype, shape, &data);
  ConvertFromFloat(dtype, values.data(), values.size(), data);
  return tensor;
}

Tensor IntInput(const Shape& shape, const std::vector<int64_t>& values) {
  std::byte* data = nullptr;
  Tensor tensor = Tensor::Allocate(DType::kI64, shape, &data);
  std::memcpy(data, values.data(), values.size() * sizeof(int64_t));
  return tensor;
}

Tensor BoolInput(bool value) {
  std::byte* data = nullptr;
  Tensor tensor = Tensor::Allocate(DType::kBool, {}, &data);
  *data = static_cast<std::byte>(value);
  return tensor;
}

std::map<std::string, StockTensor> RunStock(const std::filesystem::path& model,
                                            const std::map<std::string, Tensor>& inputs) {
  std::map<std::string, StockTensor> results;
  try {
    Ort::InitApi(OrtGetApiBase()->GetApi(ORT_API_VERSION));
    Ort::SessionOptions options;
    options.SetIntraOpNumThreads(1);
    Ort::Session session(StockEnvironment(), model.c_str(), options);
    const Ort::MemoryInfo memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    const std::vector<std::string> input_names = InputNames(session);
    const std::vector<std::string> output_names = OutputNames(session);
    std::vector<const char*> in, out;
    std::vector<Ort::Value> values;
    for (const std::string& name : input_names) {
      const TensorView& view = inputs.at(name).view;
      in.push_back(name.c_str());
      values.push_back(Ort::Value::CreateTensor(memory, const_cast<std::byte*>(view.data),
                                                view.bytes(), view.shape.data(), view.shape.size(),
                                                ToOrt(view.dtype)));
    }
    for (const std::string& name : output_names) out.push_back(name.c_str());
    const auto outputs = session.Run(Ort::RunOptions(), in.data(), values.data(), values.size(),
                                     out.data(), out.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].IsTensor()) results[output_names[i]] = ToStock(outputs[i]);
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << model << ": " << error.what();
  }
  return results;
}

std::vector<float> GoldenValues() {
  // code,hex float,decimal
  std::ifstream file(std::string(HIF8_TEST_DATA_DIR) + "/golden/hif8_values.csv");
  std::string line;
  std::getline(file, line);
  std::vector<float> values;
  while (std::getline(file, line)) {
    const size_t comma = line.find(',');
    values.push_back(std::strtof(line.c_str() + comma + 1, nullptr));
  }
  EXPECT_EQ(values.size(), 256u);
  return values;
}

float GoldenRound(float x, const std::vector<float>& grid) {
  if (!std::isfinite(x)) return x;
  const double a = std::fabs(static_cast<double>(x));
  double best = 0;
  for (const float value : grid) {
    if (!std::isfinite(value) || value < 0) continue;
    const double now = std::fabs(value - a), before = std::fabs(best - a);
    if (now < before || (now == before && value > best)) best = value;
  }
  return static_cast<float>(x < 0 && best != 0 ? -best : best);
}

}  // namespace hif8
