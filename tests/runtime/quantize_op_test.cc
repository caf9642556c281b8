// The native QuantizeDequantizeLinear, in a session of the project and through the plug-in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>

#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/model/onnx/functions.h"
#include "lib/runtime/ort_api.h"
#include "lib/runtime/session.h"
#include "tests/paths.h"
#include "tests/runtime/quantize_model.h"

namespace hif8 {
namespace {

using testing::ElementsAre;

SessionOptions Native(int threads = 1) {
  return {.threads = threads,
          .log = nullptr,
          .taps = nullptr,
          .operators = {{"ai.hif8", "QuantizeDequantizeLinear", &BuiltinFormats().Get("hif8")}}};
}

std::vector<float> RunNative(const Shape& shape, const std::vector<float>& x,
                             const Shape& scale_shape, const std::vector<float>& scale) {
  const Shape any(shape.size(), -1);
  const Shape any_scale(scale_shape.size(), -1);
  Session session(QuantizeModel(any, any_scale).Build(), Native());
  return Floats(
      session.Run({{"x", FloatTensor(shape, x)}, {"scale", FloatTensor(scale_shape, scale)}})[0]
          .view);
}

void ExpectSameBits(const std::vector<float>& found, const std::vector<float>& x,
                    const std::function<float(size_t)>& scale) {
  ASSERT_EQ(found.size(), x.size());
  size_t wrong = 0;
  for (size_t i = 0; i < x.size() && wrong < 5; ++i) {
    const float expected = ExpectedHif8(x[i], scale(i));
    const bool same = std::isnan(expected)
                          ? std::isnan(found[i])
                          : std::bit_cast<uint32_t>(found[i]) == std::bit_cast<uint32_t>(expected);
    if (!same) {
      ++wrong;
      ADD_FAILURE() << "x = " << x[i] << ", scale = " << scale(i) << ": expected " << expected
                    << ", found " << found[i];
    }
  }
}

TEST(QuantizeOp, EqualsTheReferenceForOneScale) {
  const std::vector<float> x = ManyFloats();
  const auto n = static_cast<int64_t>(x.size());
  for (const float scale : {1.0f, 0.37f, 1e-30f, 3e20f}) {
    ExpectSameBits(RunNative({n}, x, {}, {scale}), x, [&](size_t) { return scale; });
  }
  ExpectSameBits(RunNative({n / 64, 64}, x, {1}, {0.01f}), x, [](size_t) { return 0.01f; });
}

TEST(QuantizeOp, EqualsTheReferenceForBroadcastScales) {
  const std::vector<float> all = ManyFloats();
  const std::vector<float> x(all.begin(), all.begin() + 3 * 70 * 500);
  std::vector<float> scale(70);
  for (size_t i = 0; i < scale.size(); ++i) scale[i] = 0.01f * static_cast<float>(i + 1);
  ExpectSameBits(RunNative({3, 70, 500}, x, {70, 1}, scale), x,
                 [&](size_t i) { return scale[i / 500 % 70]; });
  ExpectSameBits(RunNative({3, 500, 70}, x, {1, 1, 70}, scale), x,
                 [&](size_t i) { return scale[i % 70]; });
  std::vector<float> per_batch = {0.5f, 2, 0.125f};
  ExpectSameBits(RunNative({3, 500, 70}, x, {3, 1, 1}, per_batch), x,
                 [&](size_t i) { return per_batch[i / 35000]; });
}

TEST(QuantizeOp, SpecialValuesPassThrough) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto y = RunNative({6}, {inf, -inf, nan, -0.0f, 1e30f, -1e30f}, {}, {2.0f});
  EXPECT_EQ(y[0], inf);
  EXPECT_EQ(y[1], -inf);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(std::bit_cast<uint32_t>(y[3]), 0u) << "zeros are +0";
  EXPECT_EQ(y[4], 65536.0f);
  EXPECT_EQ(y[5], -65536.0f);
}

TEST(QuantizeOp, EmptyAndScalarTensors) {
  EXPECT_TRUE(RunNative({0, 4}, {}, {}, {1.0f}).empty());
  EXPECT_TRUE(RunNative({0, 4}, {}, {4}, {1, 2, 3, 4}).empty());
  EXPECT_THAT(RunNative({}, {1.05f}, {}, {1.0f}), ElementsAre(1.0f));
  EXPECT_THAT(RunNative({}, {1.05f}, {1}, {1.0f}), ElementsAre(1.0f));
}

TEST(QuantizeOp, ScalesThatDoNotBroadcastAreRefused) {
  EXPECT_THROW(RunNative({4, 3}, std::vector<float>(12, 1.0f), {4}, {1, 2, 3, 4}), Error);
}

TEST(QuantizeOp, WithoutItTheFunctionInTheModelIsUsed) {
  Session session(QuantizeModel({2}, {}).Build(), {});
  const auto y =
      session.Run({{"x", FloatTensor({2}, {1.05f, 2})}, {"scale", FloatTensor({}, {1})}});
  EXPECT_THAT(Floats(y[0].view), ElementsAre(-1.05f, -2));
}

TEST(QuantizeOp, TheInputSurvivesWhenOthersReadIt) {
  TestGraph g = QuantizeModel({3}, {});
  g.Output("z", {3});
  g.Node("Neg", {"x"}, {"n"});
  g.Node("QuantizeDequantizeLinear", {"n", "scale"}, {"q"}, "ai.hif8");
  g.Node("Sub", {"n", "q"}, {"z"});
  Session session(g.Build(), Native());
  const auto outputs =
      session.Run({{"x", FloatTensor({3}, {1.05f, 2, 3.1f})}, {"scale", FloatTensor({}, {1})}});
  EXPECT_THAT(Floats(outputs[1].view),
              ElementsAre(-1.05f + 1, 0.0f, -3.1f - ExpectedHif8(-3.1f, 1)));
}

constexpr const char* kLibrary = HIF8_LIB_DIR "/libhif8_onnxruntime.so";

// The values of a session that nobody but its user prepared.
std::vector<float> RunByHand(const std::string& model, const Ort::SessionOptions& options,
                             std::vector<float> x, float scale) {
  static Ort::Env env(ORT_LOGGING_LEVEL_ERROR, "test");
  Ort::Session session(env, model.data(), model.size(), options);
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  const auto n = static_cast<int64_t>(x.size());
  Ort::Value inputs[] = {Ort::Value::CreateTensor<float>(memory, x.data(), x.size(), &n, 1),
                         Ort::Value::CreateTensor<float>(memory, &scale, 1, nullptr, 0)};
  const char* input_names[] = {"x", "scale"};
  const char* output_names[] = {"y"};
  const auto y = session.Run(Ort::RunOptions(), input_names, inputs, 2, output_names, 1);
  const float* values = y[0].GetTensorData<float>();
  return {values, values + n};
}

// With the function that is written into files, for any format.
std::string ModelWithFunction(const NumberFormat& format) {
  TestGraph g = QuantizeModel({-1}, {});
  *g.model().mutable_functions(0) = MakeQuantizeDequantizeFunction(format, 17);
  const std::string domain = FunctionDomain(format.name());
  g.model().mutable_opset_import(g.model().opset_import_size() - 1)->set_domain(domain);
  g.graph().mutable_node(0)->set_domain(domain);
  return g.Build().model;
}

TEST(Plugin, GivesTheBitsOfTheFunctionForEveryFormat) {
  EngineVersion();  // initialises the engine's API in this process
  const std::vector<float> x = ManyFloats();
  for (const std::string& name : BuiltinFormats().names()) {
    const std::string model = ModelWithFunction(BuiltinFormats().Get(name));
    for (const float scale : {1.0f, 0.0371f}) {
      const std::vector<float> function = RunByHand(model, Ort::SessionOptions(), x, scale);
      Ort::SessionOptions prepared;
      prepared.RegisterCustomOpsLibrary(kLibrary);
      const std::vector<float> native = RunByHand(model, prepared, x, scale);
      size_t different = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const bool same = std::isnan(function[i]) ? std::isnan(native[i])
                                                  : std::bit_cast<uint32_t>(function[i]) ==
                                                        std::bit_cast<uint32_t>(native[i]);
        if (!same && ++different <= 3) {
          ADD_FAILURE() << name << ": x = " << x[i] << ", scale = " << scale << ": function "
                        << function[i] << ", native " << native[i];
        }
      }
      EXPECT_EQ(different, 0u) << name;
    }
  }
}

TEST(Plugin, ServesAnySession) {
  EngineVersion();
  Ort::Env env(ORT_LOGGING_LEVEL_ERROR, "test");
  Ort::SessionOptions options;
  options.RegisterCustomOpsLibrary(kLibrary);
  const RunnableGraph graph = QuantizeModel({-1}, {}).Build();
  Ort::Session first(env, graph.model.data(), graph.model.size(), options);
  Ort::SessionOptions again;
  again.RegisterCustomOpsLibrary(kLibrary);
  Ort::Session second(env, graph.model.data(), graph.model.size(), again);
  std::vector<float> x = ManyFloats();
  float scale = 0.37f;
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  const int64_t n = static_cast<int64_t>(x.size());
  for (Ort::Session* session : {&first, &second}) {
    Ort::Value inputs[] = {Ort::Value::CreateTensor<float>(memory, x.data(), x.size(), &n, 1),
                           Ort::Value::CreateTensor<float>(memory, &scale, 1, nullptr, 0)};
    const char* input_names[] = {"x", "scale"};
    const char* output_names[] = {"y"};
    const auto y = session->Run(Ort::RunOptions(), input_names, inputs, 2, output_names, 1);
    const float* values = y[0].GetTensorData<float>();
    ExpectSameBits({values, values + n}, x, [&](size_t) { return scale; });
  }
}

}  // namespace
}  // namespace hif8
