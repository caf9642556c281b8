// Every small model that Debian's libonnx-testdata has: loads, and goes through the writer and a
// stock ONNX Runtime when there is anything to quantize.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>

#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/model/onnx/onnx_graphs.h"
#include "lib/model/onnx/onnx_writer.h"
#include "lib/runtime/session.h"
#include "tests/model/onnx_builder.h"
#include "tests/model/onnx_quantize.h"
#include "tests/model/onnx_stock.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;

const fs::path kData = "/usr/share/libonnx-testdata/data";

std::vector<fs::path> Models(const std::vector<std::string>& kinds) {
  std::vector<fs::path> models;
  for (const std::string& kind : kinds) {
    if (!fs::is_directory(kData / kind)) continue;
    for (const auto& entry : fs::directory_iterator(kData / kind)) {
      if (fs::exists(entry.path() / "model.onnx")) models.push_back(entry.path() / "model.onnx");
    }
  }
  std::sort(models.begin(), models.end());
  return models;
}

// The values of a message's raw data or of the field that holds them otherwise.
template <typename T, typename Field>
std::vector<T> ReadValues(const onnx::TensorProto& proto, const Field& field) {
  std::vector<T> values(field.begin(), field.end());
  if (proto.has_raw_data()) {
    values.resize(proto.raw_data().size() / sizeof(T));
    std::copy_n(proto.raw_data().data(), proto.raw_data().size(),
                reinterpret_cast<char*>(values.data()));
  }
  return values;
}

// A tensor of a .pb file; an empty one when it is neither float, double nor int64.
Tensor ReadPb(const fs::path& path) {
  onnx::TensorProto proto;
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(proto.ParseFromIstream(&file)) << path;
  const Shape shape(proto.dims().begin(), proto.dims().end());
  switch (proto.data_type()) {
    case onnx::TensorProto::INT64:
      return IntInput(shape, ReadValues<int64_t>(proto, proto.int64_data()));
    case onnx::TensorProto::FLOAT:
      return FloatInput(shape, ReadValues<float>(proto, proto.float_data()));
    case onnx::TensorProto::DOUBLE: {
      const std::vector<double> values = ReadValues<double>(proto, proto.double_data());
      return FloatInput(shape, {values.begin(), values.end()}, DType::kF64);
    }
    default:
      return {};
  }
}

std::map<std::string, Tensor> ReadInputs(const OnnxModel& model, const fs::path& folder) {
  std::map<std::string, Tensor> inputs;
  for (size_t i = 0; i < model.inputs().size(); ++i) {
    inputs[model.inputs()[i].name] =
        ReadPb(folder / "test_data_set_0" / ("input_" + std::to_string(i) + ".pb"));
  }
  return inputs;
}

double Sqnr(const std::vector<float>& x, const std::vector<float>& y) {
  double signal = 0, noise = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) continue;
    signal += static_cast<double>(x[i]) * x[i];
    noise += (static_cast<double>(x[i]) - y[i]) * (static_cast<double>(x[i]) - y[i]);
  }
  return noise == 0 ? INFINITY : 10 * std::log10(signal / noise);
}

class Amax : public TapSink {
 public:
  void Observe(int id, const TensorView& x) override {
    std::vector<float> buffer;
    for (const float v : AsFloats(x, &buffer)) {
      if (std::isfinite(v)) amax[id] = std::max(amax[id], std::fabs(v));
    }
  }
  void Compare(int, const TensorView&, const TensorView&) override {}
  std::map<int, float> amax;
};

TEST(OnnxTestData, EveryModelLoads) {
  const auto models = Models({"node", "pytorch-converted", "pytorch-operator", "simple"});
  if (models.empty()) GTEST_SKIP() << "libonnx-testdata is not installed: " << kData;
  size_t layers = 0;
  for (const fs::path& path : models) {
    try {
      const auto model = LoadModel(path);
      layers += model->layers().size();
      for (size_t i = 0; i < model->weights().size(); ++i) model->ReadWeight(static_cast<int>(i));
    } catch (const Error& error) {
      ADD_FAILURE() << path << ": " << error.message() << " | " << error.where();
    }
  }
  std::cout << models.size() << " models, " << layers << " layers\n";
  EXPECT_GT(models.size(), 1000u);
}

// The models of the oldest sets are converted: they still compute what their files say.
TEST(OnnxTestData, ConvertedModelsComputeTheSame) {
  const auto models = Models({"pytorch-converted", "pytorch-operator"});
  if (models.empty()) GTEST_SKIP() << "libonnx-testdata is not installed: " << kData;
  TestFolder folder;
  int converted = 0, compared = 0;
  for (const fs::path& path : models) {
    SCOPED_TRACE(path.string());
    const auto model = LoadModel(path);
    if (model->stored_opset() >= 9) continue;
    ++converted;
    EXPECT_EQ(model->opset(), 9);
    const auto written = WriteOnnxModel(*model, {}, BuiltinFormats(), folder.path(), NullLog());
    auto result = RunStock(written.model, ReadInputs(*model, path.parent_path()));
    const Tensor expected = ReadPb(path.parent_path() / "test_data_set_0" / "output_0.pb");
    if (!IsFloat(expected.view.dtype) || expected.owner == nullptr) continue;
    ++compared;
    std::vector<float> buffer;
    const std::span<const float> values = AsFloats(expected.view, &buffer);
    EXPECT_THAT(result[model->outputs()[0].name].values,
                testing::Pointwise(testing::NanSensitiveFloatNear(2e-3F),
                                   std::vector<float>(values.begin(), values.end())));
  }
  EXPECT_GT(converted, 100);
  EXPECT_GT(compared, 100);
}

TEST(OnnxTestData, ModelsWithLayersGoThroughTheWriter) {
  const auto models = Models({"node", "pytorch-converted", "pytorch-operator", "simple"});
  if (models.empty()) GTEST_SKIP() << "libonnx-testdata is not installed: " << kData;
  TestFolder folder;
  int quantized = 0;
  for (const fs::path& path : models) {
    SCOPED_TRACE(path.string());
    const auto model = LoadModel(path);
    const ReferenceQuantizer quantizer(*model);
    OnnxWritePlan plan = quantizer.PlanAll();
    if (std::none_of(plan.quantized.begin(), plan.quantized.end(), [](bool q) { return q; })) {
      continue;
    }
    ++quantized;
    const auto inputs = ReadInputs(*model, path.parent_path());
    std::vector<int> activations;
    for (const auto& [index, scale] : plan.activations) activations.push_back(index);
    Amax amax;
    SessionOptions options;
    options.taps = &amax;
    Session(BuildObservedGraph(*model, activations), options).Run(inputs);
    for (auto& [index, chosen] : plan.activations) {
      if (amax.amax[index] > 0) chosen.scale = amax.amax[index] / 16;
    }
    WriteOnnxModel(*model, {}, BuiltinFormats(), folder.path(), NullLog());
    const auto expected = RunStock(folder / "model.onnx", inputs);
    WriteOnnxModel(*model, plan, BuiltinFormats(), folder.path(), NullLog());
    const auto found = RunStock(folder / "model.onnx", inputs);
    for (const auto& [name, tensor] : expected) {
      if (!found.contains(name)) continue;
      EXPECT_EQ(found.at(name).shape, tensor.shape) << name;
      // Four significant bits at each operand give some 25 dB.
      EXPECT_GT(Sqnr(tensor.values, found.at(name).values), 20) << name;
    }
    const EvaluationGraphs graphs = BuildEvaluationGraphs(*model, folder.path());
    EXPECT_FALSE(graphs.quantized_taps.empty());
    Amax taps;
    options.taps = &taps;
    Session(graphs.original, options).Run(inputs);
    Session(graphs.quantized, options).Run(inputs);
  }
  std::cout << quantized << " models quantized\n";
  EXPECT_GT(quantized, 30);
}

}  // namespace
}  // namespace hif8
