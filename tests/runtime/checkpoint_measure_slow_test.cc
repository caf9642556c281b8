// The quantized network beside the original one: written, read back, run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/model/safetensors/checkpoint_writer.h"
#include "lib/runtime/checkpoint_source.h"
#include "tests/paths.h"
#include "tests/runtime/checkpoint_reference.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;

const fs::path kModels = fs::path(HIF8_TEST_DATA_DIR) / "models";
const fs::path kShared = fs::path(HIF8_SHARED_DIR) / "models";

// amax of each row / 16 as scale, codes by the format's scalar reference.
EncodedWeight EncodeMax(const Checkpoint& checkpoint, int index) {
  const Weight& weight = checkpoint.weights()[static_cast<size_t>(index)];
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  std::vector<float> buffer;
  const Tensor tensor = checkpoint.ReadWeight(index);
  const auto values = AsFloats(tensor.view, &buffer);
  EncodedWeight encoded;
  encoded.format = "hif8";
  encoded.layout = weight.channels;
  for (size_t c = 0; c < weight.channels.channels; ++c) {
    const auto row = values.subspan(c * weight.channels.inner, weight.channels.inner);
    float amax = 0;
    for (const float x : row) amax = std::max(amax, std::fabs(x));
    const float scale = amax > 0 ? amax / 16 : 1;
    encoded.scales.push_back(scale);
    for (const float x : row) {
      encoded.codes.push_back(format.EncodeOne(x / scale, Overflow::kSaturate));
    }
  }
  return encoded;
}

// All Linear but the head, written below `folder`. Returns the scales of their inputs.
std::map<int, QuantizedActivation> QuantizeMax(const std::shared_ptr<const Checkpoint>& checkpoint,
                                               CheckpointSource* source, const fs::path& folder) {
  CheckpointPlan plan;
  std::vector<int> wanted;
  for (size_t i = 0; i < checkpoint->layers().size(); ++i) {
    const Layer& layer = checkpoint->layers()[i];
    if (layer.optional || layer.weight < 0) continue;
    plan.layers[static_cast<int>(i)].weight_format = &BuiltinFormats().Get("hif8");
    wanted.push_back(layer.activation);
  }
  const std::vector<TensorStats> stats = source->Collect(wanted);
  std::map<int, QuantizedActivation> activations;
  for (const int index : wanted) {
    const float amax = stats[static_cast<size_t>(index)].amax();
    activations[index] = {{&BuiltinFormats().Get("hif8"), amax / 16}, amax};
  }
  WriteCheckpoint(
      *checkpoint, plan, BuiltinFormats(), [&](int index) { return EncodeMax(*checkpoint, index); },
      folder, NullLog());
  return activations;
}

TEST(CheckpointMeasureTest, TinyQwen3W8A8PerplexityIsTheIndependentSimulations) {
  const fs::path model = kShared / "tiny-qwen3";
  if (!fs::exists(model)) GTEST_SKIP() << "SKIPPED: no " << model;
  const auto json = nlohmann::json::parse(test::ReadBytes(model / "reference.json"));
  const auto checkpoint = Checkpoint::Open(model, StoredFormats());
  CheckpointSource source(checkpoint,
                          {ReadTokenData(model / "calibration_ids.npy", {}),
                           ReadTokenData(model / "validation_ids.npy", {})},
                          BuiltinFormats(), NullLog());
  const test::TemporaryFolder folder;
  const auto activations = QuantizeMax(checkpoint, &source, folder.path());
  const LayerSet layers(checkpoint->layers().size(), true);
  const Measurement m = source.Measure(folder.path(), activations, layers);
  const double original = json["perplexity"]["value"];
  const double quantized = json["hif8_w8a8_perplexity"];
  EXPECT_NEAR(m.perplexity_original, original, 1e-3 * original);
  EXPECT_NEAR(m.perplexity_quantized, quantized, 1e-3 * quantized);
  EXPECT_LT(m.perplexity_quantized, 1.002 * m.perplexity_original);
  EXPECT_EQ(m.samples, 64u);
  EXPECT_EQ(m.outputs[0].argmax_rows, 64u * 256u);
  EXPECT_GT(m.outputs[0].argmax_equal, 64u * 256u * 9 / 10);
  std::printf("perplexity %.4f -> %.4f (expected %.4f -> %.4f), logits %.1f dB, argmax %.2f %%\n",
              m.perplexity_original, m.perplexity_quantized, original, quantized,
              m.outputs[0].error.SqnrDb(),
              100.0 * static_cast<double>(m.outputs[0].argmax_equal) /
                  static_cast<double>(m.outputs[0].argmax_rows));
}

}  // namespace
}  // namespace hif8
