// A model larger than protobuf's 2 GB, its weights in external data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "formats/builtin.h"
#include "lib/model/onnx/onnx_graphs.h"
#include "lib/model/onnx/onnx_writer.h"
#include "lib/runtime/session.h"
#include "tests/model/onnx_builder.h"
#include "tests/model/onnx_stock.h"

namespace hif8 {
namespace {

constexpr int64_t kSize = 24000;  // kSize * kSize * 4 bytes = 2.3 GB
constexpr uint64_t kElements = static_cast<uint64_t>(kSize) * kSize;

// Megabytes of the process's own memory now.
uint64_t OwnMegabytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) / 1024;
  }
  return 0;
}

// A sparse file: zero but for the first row of the first weight.
ModelBuilder LargeModel(const TestFolder& folder) {
  const std::vector<float> row(kSize, 2.0F);
  std::ofstream(folder / "w.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(row.data()), kSize * 4);
  std::filesystem::resize_file(folder / "w.bin", kElements * 4);
  ModelBuilder b;
  b.Input("x", {1, kSize}).Output("y");
  onnx::TensorProto* w = b.graph().add_initializer();
  w->set_name("w");
  w->set_data_type(onnx::TensorProto::FLOAT);
  w->add_dims(kSize);
  w->add_dims(kSize);
  w->set_data_location(onnx::TensorProto::EXTERNAL);
  auto* location = w->add_external_data();
  location->set_key("location");
  location->set_value("w.bin");
  b.Node("MatMul", {"x", "w"}, {"y"}, "layer");
  return b;
}

TEST(OnnxLarge, LoadsRunsAndIsWritten) {
  TestFolder folder;
  const auto model = LoadModel(LargeModel(folder).Save(folder.path(), "in.onnx"));
  EXPECT_EQ(model->parameter_count(), kElements);
  EXPECT_LT(OwnMegabytes(), 200u);  // the weight stays in its file

  std::vector<float> x(kSize, 0);
  x[0] = 3;
  const NamedTensors in = {{"x", FloatInput({1, kSize}, x)}};
  const RunnableGraph observed = BuildObservedGraph(*model, std::vector<int>{0});
  EXPECT_LT(observed.model.size(), size_t{1} << 20);
  {
    const auto outputs = Session(observed, {}).Run(in);
    EXPECT_EQ(reinterpret_cast<const float*>(outputs[0].view.data)[kSize - 1], 6.0F);
  }

  OnnxWritePlan plan;
  plan.quantized = {true};
  plan.activations[0] = {&BuiltinFormats().Get("hif8"), 3.0F / 16};
  plan.encode = [&](int) {
    const NumberFormat& format = BuiltinFormats().Get("hif8");
    EncodedWeight encoded{"hif8", model->weights()[0].channels, {}, {}};
    encoded.scales.assign(kSize, 0.125F);
    encoded.codes.assign(kElements, format.EncodeOne(0, Overflow::kSaturate));
    std::fill_n(encoded.codes.begin(), kSize, format.EncodeOne(16, Overflow::kSaturate));
    return encoded;
  };
  for (const uint64_t external_from : {uint64_t{1}, plan.external_from_bytes}) {
    plan.external_from_bytes = external_from;
    const auto written = WriteOnnxModel(*model, plan, BuiltinFormats(), folder.path(), NullLog());
    EXPECT_EQ(written.data.empty(), external_from > 1);
    EXPECT_LE(written.bytes, kElements + 4 * kSize + 65536);
    auto result = RunStock(written.model, in);
    EXPECT_THAT(result["y"].values, testing::Each(6.0F));
  }
  // Kept as it is, it needs external data again.
  const auto kept = WriteOnnxModel(*model, {}, BuiltinFormats(), folder.path(), NullLog());
  EXPECT_FALSE(kept.data.empty());
  EXPECT_EQ(RunStock(kept.model, in)["y"].values[7], 6.0F);
}

}  // namespace
}  // namespace hif8
