// From a model file, a data file and a written model to statistics and errors.
#include "lib/runtime/onnx_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/core/interrupt.h"
#include "lib/core/parallel.h"
#include "lib/model/onnx/onnx_writer.h"
#include "tests/runtime/data_files.h"
#include "tests/runtime/quantize_model.h"
#include "tests/runtime/test_graph.h"

namespace hif8 {
namespace {

constexpr size_t kSamples = 6;
constexpr size_t kIn = 5;
constexpr size_t kMid = 4;
constexpr size_t kOut = 3;
constexpr float kWeightScale = 0.07f;
constexpr float kScales[2] = {0.11f, 0.23f};

std::vector<float> Wave(size_t n, double step) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) {
    values[i] = static_cast<float>(std::sin(static_cast<double>(i) * step + 0.3) * 2);
  }
  return values;
}

std::vector<double> Times(const std::vector<double>& x, const std::vector<double>& w, size_t inner,
                          size_t columns) {
  std::vector<double> y(x.size() / inner * columns);
  for (size_t r = 0; r < x.size() / inner; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      for (size_t k = 0; k < inner; ++k) {
        y[r * columns + c] += x[r * inner + k] * w[k * columns + c];
      }
    }
  }
  return y;
}

std::vector<double> Rounded(const std::vector<double>& x, float scale) {
  std::vector<double> y;
  y.reserve(x.size());
  for (const double v : x) {
    y.push_back(static_cast<double>(ExpectedHif8(static_cast<float>(v), scale)));
  }
  return y;
}

std::vector<double> Relu(std::vector<double> x) {
  for (double& v : x) v = std::max(v, 0.0);
  return x;
}

double Sqnr(const std::vector<double>& x, const std::vector<double>& y) {
  double signal = 0;
  double noise = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    signal += x[i] * x[i];
    noise += (x[i] - y[i]) * (x[i] - y[i]);
  }
  return 10 * std::log10(signal / noise);
}

// x -> MatMul -> Relu -> MatMul -> y, written with every weight at one scale.
class OnnxSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    TestGraph g;
    g.model().mutable_opset_import()->RemoveLast();  // no taps in the file
    g.Input("x", {-1, kIn}).Output("y", {-1, kOut});
    g.Weight("w1", {kIn, kMid}, Wave(kIn * kMid, 0.9));
    g.Weight("w2", {kMid, kOut}, Wave(kMid * kOut, 1.3));
    g.Node("MatMul", {"x", "w1"}, {"a"})->set_name("first");
    g.Node("Relu", {"a"}, {"r"});
    g.Node("MatMul", {"r", "w2"}, {"y"})->set_name("second");
    WriteBytes(dir_ / "model.onnx", g.Build().model);
    model_ = OnnxModel::Load(dir_ / "model.onnx", NullLog());
    WriteBytes(dir_ / "x.npy", NpyFloats({kSamples, kIn}, Wave(kSamples * kIn, 0.77)));
    options_.calibration.source = (dir_ / "x.npy").string();
    options_.formats = &BuiltinFormats();
  }

  // The folder of a written model.
  std::filesystem::path Write() {
    const NumberFormat& format = BuiltinFormats().Get("hif8");
    OnnxWritePlan plan;
    plan.quantized.assign(model_->layers().size(), true);
    for (size_t i = 0; i < model_->activations().size(); ++i) {
      plan.activations[static_cast<int>(i)] = {&BuiltinFormats().Get("hif8"), kScales[i]};
    }
    plan.encode = [&](int index) {
      const Tensor values = model_->ReadWeight(index);
      EncodedWeight encoded{"hif8", ChannelLayout::PerTensor(values.view.size()), {}, {}};
      encoded.scales = {kWeightScale};
      encoded.codes.resize(values.view.size());
      format.Encode(values.view.dtype, values.view.data, ScaleOperand::One(encoded.scales[0]),
                    encoded.codes);
      return encoded;
    };
    const std::filesystem::path folder = dir_ / "out";
    std::filesystem::create_directories(folder);
    WriteOnnxModel(*model_, plan, BuiltinFormats(), folder, NullLog());
    return folder;
  }

  TempFolder dir_;
  std::unique_ptr<OnnxModel> model_;
  OnnxSourceOptions options_;
};

TEST_F(OnnxSourceTest, CollectsWhatIsWantedOnly) {
  ASSERT_EQ(model_->activations().size(), 2u);
  const auto source = MakeOnnxSource(*model_, options_, NullLog());
  const int wanted[] = {1};
  const auto stats = source->Collect(wanted);
  ASSERT_EQ(stats.size(), 2u);
  EXPECT_EQ(stats[0].count(), 0u);
  const std::vector<float> x = Wave(kSamples * kIn, 0.77);
  const std::vector<float> w = Wave(kIn * kMid, 0.9);
  const auto r = Relu(Times({x.begin(), x.end()}, {w.begin(), w.end()}, kIn, kMid));
  EXPECT_EQ(stats[1].count(), r.size());
  EXPECT_NEAR(stats[1].amax(), *std::max_element(r.begin(), r.end()), 1e-5);
  EXPECT_EQ(source->samples(), kSamples);
  EXPECT_FALSE(source->synthetic());
}

TEST_F(OnnxSourceTest, StatisticsAreTheSameBytesForAnyNumberOfThreads) {
  std::vector<std::string> bytes[2];
  for (const int threads : {1, 2}) {
    SetThreads(threads);
    const int wanted[] = {0, 1};
    for (const TensorStats& stats : MakeOnnxSource(*model_, options_, NullLog())->Collect(wanted)) {
      bytes[threads - 1].push_back(stats.Serialize());
    }
  }
  SetThreads(0);
  EXPECT_EQ(bytes[0], bytes[1]);
}

TEST_F(OnnxSourceTest, MeasuresTheWrittenModel) {
  const std::filesystem::path written = Write();
  for (const bool native : {true, false}) {
    options_.formats = native ? &BuiltinFormats() : nullptr;
    const auto source = MakeOnnxSource(*model_, options_, NullLog());
    std::map<int, QuantizedActivation> quantized;
    for (int i = 0; i < 2; ++i) {
      quantized[i] = {{&BuiltinFormats().Get("hif8"), kScales[i]}, 1.5f};
    }
    const Measurement result = source->Measure(written, quantized, {});

    const std::vector<float> data = Wave(kSamples * kIn, 0.77);
    const std::vector<double> x(data.begin(), data.end());
    std::vector<double> w[2];
    for (const float v : Wave(kIn * kMid, 0.9)) w[0].push_back(v);
    for (const float v : Wave(kMid * kOut, 1.3)) w[1].push_back(v);
    const auto a = Times(x, w[0], kIn, kMid);
    const auto r = Relu(a);
    const auto y = Times(r, w[1], kMid, kOut);
    const auto wq0 = Rounded(w[0], kWeightScale);
    const auto wq1 = Rounded(w[1], kWeightScale);
    const auto aq = Times(Rounded(x, kScales[0]), wq0, kIn, kMid);
    const auto yq_local = Times(Rounded(r, kScales[1]), wq1, kMid, kOut);
    const auto yq = Times(Rounded(Relu(aq), kScales[1]), wq1, kMid, kOut);

    EXPECT_EQ(result.samples, kSamples);
    EXPECT_NEAR(result.activation[0].SqnrDb(), Sqnr(x, Rounded(x, kScales[0])), 1e-3);
    EXPECT_NEAR(result.activation[1].SqnrDb(), Sqnr(r, Rounded(r, kScales[1])), 1e-3);
    EXPECT_NEAR(result.output[0].SqnrDb(), Sqnr(a, aq), 1e-3);
    EXPECT_NEAR(result.output[1].SqnrDb(), Sqnr(y, yq_local), 1e-3);
    EXPECT_NEAR(result.accumulated[0].SqnrDb(), Sqnr(a, aq), 1e-3);
    EXPECT_NEAR(result.accumulated[1].SqnrDb(), Sqnr(y, yq), 1e-3);
    EXPECT_GT(std::abs(Sqnr(y, yq) - Sqnr(y, yq_local)), 0.01) << "the two should differ";
    ASSERT_EQ(result.outputs.size(), 1u);
    EXPECT_NEAR(result.outputs[0].error.SqnrDb(), Sqnr(y, yq), 1e-3);
    EXPECT_EQ(result.outputs[0].argmax_rows, kSamples);
    EXPECT_DOUBLE_EQ(result.activation[0].ExceededRate(),
                     static_cast<double>(std::count_if(
                         x.begin(), x.end(), [](double v) { return std::abs(v) > 1.5; })) /
                         static_cast<double>(x.size()));
  }
}

// Layers on their own, both, none: against sums in double.
TEST_F(OnnxSourceTest, MeasuresNetworksWithSomeLayersQuantized) {
  const std::filesystem::path written = Write();
  const auto source = MakeOnnxSource(*model_, options_, NullLog());
  const std::vector<float> data = Wave(kSamples * kIn, 0.77);
  const auto w0 = Wave(kIn * kMid, 0.9);
  const auto w1 = Wave(kMid * kOut, 1.3);
  const std::vector<LayerSet> variants = {
      {true, false}, {false, true}, {true, true}, {false, false}};
  for (const uint64_t samples : {uint64_t{0}, uint64_t{3}}) {
    const size_t count = samples == 0 ? kSamples : samples;
    const std::vector<double> x(data.begin(), data.begin() + static_cast<ptrdiff_t>(count * kIn));
    const auto run = [&](const LayerSet& quantized) {
      std::vector<double> w[2] = {{w0.begin(), w0.end()}, {w1.begin(), w1.end()}};
      for (size_t i = 0; i < 2; ++i) {
        if (quantized[i]) w[i] = Rounded(w[i], kWeightScale);
      }
      const auto r = Relu(Times(quantized[0] ? Rounded(x, kScales[0]) : x, w[0], kIn, kMid));
      return Times(quantized[1] ? Rounded(r, kScales[1]) : r, w[1], kMid, kOut);
    };
    const auto results = source->MeasureVariants(written, {}, variants, samples);
    ASSERT_EQ(results.size(), variants.size());
    for (size_t v = 0; v < 3; ++v) {
      EXPECT_EQ(results[v].samples, count);
      EXPECT_NEAR(results[v].outputs.at(0).error.SqnrDb(),
                  Sqnr(run({false, false}), run(variants[v])), 1e-3)
          << v;
      EXPECT_EQ(results[v].outputs[0].argmax_rows, count);
    }
    EXPECT_TRUE(std::isinf(results[3].outputs.at(0).error.SqnrDb())) << "nothing is quantized";
  }
}

std::vector<std::string> StatsBytes(const OnnxModel& model, const std::string& source,
                                    size_t batch = 1) {
  OnnxSourceOptions options;
  options.calibration.source = source;
  options.calibration.batch = batch;
  std::vector<int> all(model.activations().size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::string> bytes;
  for (const TensorStats& stats : MakeOnnxSource(model, options, NullLog())->Collect(all)) {
    bytes.push_back(stats.Serialize());
  }
  return bytes;
}

TEST_F(OnnxSourceTest, OneFileOfManySamplesIsManyFilesOfOne) {
  const std::vector<float> x = Wave(kSamples * kIn, 0.77);
  for (size_t s = 0; s < kSamples; ++s) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(s * kIn);
    WriteBytes(dir_ / ("parts/s" + std::to_string(s) + ".npy"),
               NpyFloats({1, kIn}, {begin, begin + kIn}));
  }
  const auto together = StatsBytes(*model_, (dir_ / "x.npy").string());
  EXPECT_EQ(StatsBytes(*model_, (dir_ / "parts").string()), together);
  // The first operand is the data itself: the same bytes however the engine sums.
  EXPECT_EQ(StatsBytes(*model_, (dir_ / "x.npy").string(), 0)[0], together[0]);
  EXPECT_EQ(StatsBytes(*model_, (dir_ / "parts").string(), 4)[0], together[0]);
}

TEST_F(OnnxSourceTest, SequencesOfDifferentLengths) {
  TestGraph g;
  g.model().mutable_opset_import()->RemoveLast();
  g.Input("ids", {1, -1}, DType::kI64).Output("y", {1, -1, kOut});
  g.Weight("table", {10, kMid}, Wave(10 * kMid, 1.1)).Weight("w", {kMid, kOut}, Wave(12, 1.3));
  g.Node("Gather", {"table", "ids"}, {"e"});
  g.Node("MatMul", {"e", "w"}, {"y"})->set_name("layer");
  WriteBytes(dir_ / "ids.onnx", g.Build().model);
  const auto model = OnnxModel::Load(dir_ / "ids.onnx", NullLog());
  WriteBytes(dir_ / "ids/a.npy", NpyInts({1, 3}, {1, 2, 3}));
  WriteBytes(dir_ / "ids/b.npy", NpyInts({1, 7}, {0, 1, 2, 3, 4, 5, 6}));
  WriteBytes(dir_ / "ids/c.npy", NpyInts({1, 1}, {9}));
  options_.calibration.source = (dir_ / "ids").string();
  const auto source = MakeOnnxSource(*model, options_, NullLog());
  ASSERT_EQ(model->layers().back().name, "layer");
  const int wanted[] = {model->layers().back().activation};
  const auto stats = source->Collect(wanted);
  const TensorStats& layer = stats[static_cast<size_t>(wanted[0])];
  EXPECT_EQ(layer.samples(), 3u);
  EXPECT_EQ(layer.count() + layer.nan_count(), 11u * kMid);
  EXPECT_EQ(source->samples(), 3u);
}

TEST_F(OnnxSourceTest, ABranchThatIsNeverTakenIsNotObserved) {
  TestGraph g;
  g.model().mutable_opset_import()->RemoveLast();
  g.Input("x", {1, kIn}).Output("y", {1, kOut});
  g.Weight("w", {kIn, kOut}, Wave(kIn * kOut, 0.9)).Weight("zero", {}, {0});
  g.Node("ReduceMax", {"x"}, {"m"});
  SetAttribute(g.graph().mutable_node(0), "keepdims", 0);
  g.Node("Greater", {"m", "zero"}, {"c"});
  auto* node = g.Node("If", {"c"}, {"y"});
  for (const std::string branch : {"then_branch", "else_branch"}) {
    auto* attribute = node->add_attribute();
    attribute->set_name(branch);
    attribute->set_type(onnx::AttributeProto::GRAPH);
    auto* body = attribute->mutable_g();
    body->set_name(branch);
    auto* neg = body->add_node();
    neg->set_op_type(branch == "then_branch" ? "Relu" : "Neg");
    neg->add_input("x");
    neg->add_output(branch + "_x");
    auto* matmul = body->add_node();
    matmul->set_op_type("MatMul");
    matmul->set_name(branch);
    matmul->add_input(branch + "_x");
    matmul->add_input("w");
    matmul->add_output(branch + "_y");
    auto* output = body->add_output();
    output->set_name(branch + "_y");
    output->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  }
  WriteBytes(dir_ / "if.onnx", g.Build().model);
  const auto model = OnnxModel::Load(dir_ / "if.onnx", NullLog());
  ASSERT_EQ(model->layers().size(), 2u);
  WriteBytes(dir_ / "x.npy", NpyFloats({2, kIn}, {1, 2, 3, -4, 5, 1, 1, 1, 1, -1}));
  const auto source = MakeOnnxSource(*model, options_, NullLog());
  std::vector<int> all(model->activations().size());
  std::iota(all.begin(), all.end(), 0);
  const auto stats = source->Collect(all);
  for (const Layer& layer : model->layers()) {
    const TensorStats& seen = stats[static_cast<size_t>(layer.activation)];
    EXPECT_EQ(seen.samples(), layer.name == "then_branch" ? 2u : 0u) << layer.name;
  }
}

TEST_F(OnnxSourceTest, EvaluationDataIsItsOwn) {
  const std::filesystem::path written = Write();
  WriteBytes(dir_ / "eval.npy", NpyFloats({2, kIn}, Wave(2 * kIn, 0.5)));
  options_.evaluation.source = (dir_ / "eval.npy").string();
  const auto source = MakeOnnxSource(*model_, options_, NullLog());
  EXPECT_EQ(source->Measure(written, {}, {}).samples, 2u);
  EXPECT_EQ(source->samples(), kSamples);
  options_.calibration.source.clear();
  const auto without = MakeOnnxSource(*model_, options_, NullLog());
  const int wanted[] = {0};
  EXPECT_THROW(without->Collect(wanted), Error);
  EXPECT_EQ(without->Measure(written, {}, {}).samples, 2u);
}

TEST_F(OnnxSourceTest, BadDataIsFoundWhenTheSourceIsMade) {
  WriteBytes(dir_ / "x.npy", NpyCount({kSamples, kIn + 1}));
  try {
    MakeOnnxSource(*model_, options_, NullLog());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kModel);
    EXPECT_THAT(error.message(), testing::HasSubstr("found [6, 6]"));
  }
}

}  // namespace
}  // namespace hif8
