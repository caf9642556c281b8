// The networks of the small checkpoints against what an independent implementation computed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/runtime/checkpoint_source.h"
#include "tests/paths.h"
#include "tests/runtime/checkpoint_reference.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kModels = fs::path(HIF8_TEST_DATA_DIR) / "models";
const fs::path kShared = fs::path(HIF8_SHARED_DIR) / "models";

void ExpectMatchesReference(const fs::path& model) {
  const test::Reference reference(model);
  const auto checkpoint = Checkpoint::Open(model);
  CheckpointSource source(checkpoint, {reference.Ids(), {}}, BuiltinFormats(), NullLog());
  const CheckpointSource::Trace trace = source.Run();
  for (size_t b = 0; b < trace.hidden.size(); ++b) {
    const auto& expected = reference.tensors.at("hidden_states." + std::to_string(b));
    EXPECT_LT(test::RelativeDifference(trace.hidden[b], expected), 2e-4) << "block " << b;
  }
  const double logits = test::RelativeDifference(trace.logits, reference.tensors.at("logits"));
  EXPECT_LT(logits, 2e-4);
  EXPECT_NEAR(trace.loss, reference.json["loss"].get<double>(), 1e-4);

  std::vector<int> all(checkpoint->activations().size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<TensorStats> stats = source.Collect(all);
  double worst = 0;
  for (const auto& [layer, amax] : reference.json["input_amax"].items()) {
    const int index = checkpoint->LayerIndex(layer);
    ASSERT_GE(index, 0) << layer;
    const int activation = checkpoint->layers()[static_cast<size_t>(index)].activation;
    ASSERT_GE(activation, 0) << layer;
    const TensorStats& record = stats[static_cast<size_t>(activation)];
    const double expected = amax.get<double>();
    EXPECT_NEAR(record.amax(), expected, 1e-4 * expected) << layer;
    if (reference.json.contains("input_rows")) {
      const CheckpointTensor& tensor = *checkpoint->Find(layer + ".weight");
      const auto columns = static_cast<uint64_t>(tensor.entry->shape[1]);
      EXPECT_EQ(record.count() / columns, reference.json["input_rows"][layer].get<uint64_t>())
          << layer;
    } else {
      EXPECT_EQ(record.samples(), reference.Ids().samples.size()) << layer;
    }
    worst = std::max(worst, std::abs(record.amax() - expected) / expected);
  }
  std::printf("%s: logits %.1e, loss %.6f (reference %.6f), amax %.1e\n", model.filename().c_str(),
              logits, trace.loss, reference.json["loss"].get<double>(), worst);
}

class CheckpointNetworkTest : public ::testing::TestWithParam<const char*> {};

TEST_P(CheckpointNetworkTest, MatchesTheReference) { ExpectMatchesReference(kModels / GetParam()); }

INSTANTIATE_TEST_SUITE_P(Models, CheckpointNetworkTest,
                         ::testing::Values("random-llama", "random-llama3-rope",
                                           "random-mistral-window", "random-pangu-embedded",
                                           "random-qwen2", "random-qwen3-moe",
                                           "random-deepseek-v3-fp8"));

TEST(CheckpointNetworkSharedTest, DeepSeekInBf16MatchesTheReference) {
  if (!fs::exists(kShared / "random-deepseek-v3")) {
    GTEST_SKIP() << "SKIPPED: no " << kShared / "random-deepseek-v3"
                 << ", which is too large for the project";
  }
  ExpectMatchesReference(kShared / "random-deepseek-v3");
}

TEST(CheckpointNetworkSharedTest, TinyQwen3MatchesTheReference) {
  if (!fs::exists(kShared / "tiny-qwen3")) {
    GTEST_SKIP() << "SKIPPED: no " << kShared / "tiny-qwen3"
                 << ", the only trained checkpoint that the project is tested on";
  }
  ExpectMatchesReference(kShared / "tiny-qwen3");
}

TEST(CheckpointNetworkSharedTest, TinyQwen3HasThePerplexityOfTheReference) {
  const fs::path model = kShared / "tiny-qwen3";
  if (!fs::exists(model)) GTEST_SKIP() << "SKIPPED: no " << model;
  const auto json = nlohmann::json::parse(test::ReadBytes(model / "reference.json"));
  CheckpointSource source(Checkpoint::Open(model),
                          {ReadTokenData(model / "validation_ids.npy", {}), {}}, BuiltinFormats(),
                          NullLog());
  const double expected = json["perplexity"]["value"];
  EXPECT_NEAR(std::exp(source.Run().loss), expected, 1e-3 * expected);
}

TEST(CheckpointNetworkSharedTest, TextAndIdsOfTheSameContentAreTheSameData) {
  const fs::path model = kShared / "tiny-qwen3";
  if (!fs::exists(model)) GTEST_SKIP() << "SKIPPED: no " << model;
  TextDataOptions options;
  options.sequence_length = 100;
  options.tokenizer_dir = model;
  std::vector<int64_t> text;
  for (const auto& sample : ReadTokenData(model / "validation.txt", options).samples) {
    text.insert(text.end(), sample.begin(), sample.end());
  }
  std::vector<int64_t> ids;
  for (const auto& sample : ReadTokenData(model / "validation_text_ids.npy", {}).samples) {
    ids.insert(ids.end(), sample.begin(), sample.end());
  }
  // A last piece of one token is dropped.
  ASSERT_LE(ids.size() - text.size(), 1u);
  ids.resize(text.size());
  EXPECT_EQ(text, ids);
}

}  // namespace
}  // namespace hif8
