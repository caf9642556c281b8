// The networks of the small checkpoints against what an independent implementation computed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <numeric>

#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/runtime/checkpoint_source.h"
#include "tests/paths.h"
#include "tests/runtime/checkpoint_reference.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;

const fs::path kModels = fs::path(HIF8_TEST_DATA_DIR) / "models";
const fs::path kShared = fs::path(HIF8_SHARED_DIR) / "models";

// `config`: the file that takes the place of config.json.
std::shared_ptr<const Checkpoint> OpenWith(const fs::path& model, const std::string& config,
                                           const fs::path& folder) {
  if (config == "config.json") return Checkpoint::Open(model, StoredFormats());
  fs::copy_file(model / "model.safetensors", folder / "model.safetensors");
  fs::copy_file(model / config, folder / "config.json");
  return Checkpoint::Open(folder, StoredFormats());
}

// The layer that the reference names, which does not know what stands before a decoder's tensors;
// null for a single expert of a tensor that holds all.
const Layer* FindLayer(const Checkpoint& checkpoint, const std::string& name) {
  const std::string& prefix = checkpoint.network().prefix;
  for (const std::string& full : {name, prefix.substr(0, prefix.size() - 6) + name}) {
    const int index = checkpoint.LayerIndex(full);
    if (index >= 0) return &checkpoint.layers()[static_cast<size_t>(index)];
  }
  return nullptr;
}

bool IsExpertOfFused(const std::string& name) {
  const size_t dot = name.rfind('.');
  return name.find("_proj.") != std::string::npos &&
         name.find_first_not_of("0123456789", dot + 1) == std::string::npos;
}

// Values that go into one element of the layer's output.
uint64_t InputsOfARow(const Checkpoint& checkpoint, const Layer& layer) {
  const DecoderSpec& spec = checkpoint.network().spec;
  if (layer.weight < 0) return static_cast<uint64_t>(spec.hidden);
  const Shape& shape = checkpoint.weights()[static_cast<size_t>(layer.weight)].shape;
  if (layer.op == "Conv") return ElementCount(shape) / static_cast<uint64_t>(shape[0]);
  const bool turned = shape.size() == 3 && spec.experts.layout == ExpertLayout::kInOut;
  return static_cast<uint64_t>(shape[shape.size() - (turned ? 2 : 1)]);
}

void ExpectInputsMatch(const Checkpoint& checkpoint, CheckpointSource& source,
                       const test::Reference& reference) {
  std::vector<int> all(checkpoint.activations().size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<TensorStats> stats = source.Collect(all);
  double worst = 0;
  for (const auto& [name, amax] : reference.json["input_amax"].items()) {
    if (IsExpertOfFused(name)) continue;
    const Layer* layer = FindLayer(checkpoint, name);
    ASSERT_NE(layer, nullptr) << name;
    ASSERT_GE(layer->activation, 0) << name;
    const TensorStats& record = stats[static_cast<size_t>(layer->activation)];
    const double expected = amax.get<double>();
    EXPECT_NEAR(record.amax(), expected, 1e-4 * expected) << name;
    if (reference.json.contains("input_rows")) {
      const uint64_t columns = InputsOfARow(checkpoint, *layer);
      EXPECT_EQ(record.count() / columns, reference.json["input_rows"][name].get<uint64_t>())
          << name;
    } else {
      EXPECT_EQ(record.samples(), reference.Ids().samples.size()) << name;
    }
    worst = std::max(worst, std::abs(record.amax() - expected) / expected);
  }
  std::printf("amax %.1e\n", worst);
}

void ExpectMatchesReference(const fs::path& model, const std::string& config = "config.json",
                            double tolerance = 2e-4) {
  const test::Reference reference(model);
  const test::TemporaryFolder folder;
  const auto checkpoint = OpenWith(model, config, folder.path());
  const DecoderSpec& spec = checkpoint->network().spec;
  CheckpointSource source(checkpoint, {reference.Data(spec), {}}, BuiltinFormats(), NullLog());
  const CheckpointSource::Trace trace = source.Run();
  for (size_t b = 0; b < trace.hidden.size(); ++b) {
    const auto& expected = reference.tensors.at("hidden_states." + std::to_string(b));
    EXPECT_LT(test::RelativeDifference(trace.hidden[b], expected), tolerance) << "block " << b;
  }
  const double logits = test::RelativeDifference(trace.logits, reference.End());
  EXPECT_LT(logits, tolerance);
  std::printf("%s, %s: logits %.1e, ", model.filename().c_str(), config.c_str(), logits);
  if (spec.PredictsTokens()) {
    const auto loss = reference.json["loss"].get<double>();
    EXPECT_NEAR(trace.loss, loss, 1e-4);
    std::printf("loss %.6f (reference %.6f), ", trace.loss, loss);
  }
  ExpectInputsMatch(*checkpoint, source, reference);
}

// Every folder of references of model families, with config.json as released and as a later library
// writes it.
std::vector<std::pair<std::string, std::string>> Families() {
  std::vector<std::pair<std::string, std::string>> list;
  for (const auto& entry : fs::directory_iterator(kModels / "families")) {
    for (const char* config : {"config.json", "config.v5.json"}) {
      if (fs::exists(entry.path() / config)) list.emplace_back(entry.path().filename(), config);
    }
  }
  std::sort(list.begin(), list.end());
  return list;
}

class FamilyTest : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(FamilyTest, MatchesTheReference) {
  ExpectMatchesReference(kModels / "families" / GetParam().first, GetParam().second, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Models, FamilyTest, ::testing::ValuesIn(Families()),
                         [](const auto& family) {
                           std::string name = family.param.first + "_" + family.param.second;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

class CheckpointNetworkTest : public ::testing::TestWithParam<const char*> {};

TEST_P(CheckpointNetworkTest, MatchesTheReference) { ExpectMatchesReference(kModels / GetParam()); }

INSTANTIATE_TEST_SUITE_P(Models, CheckpointNetworkTest,
                         ::testing::Values("random-llama", "random-llama3-rope",
                                           "random-mistral-window", "random-pangu-embedded",
                                           "random-qwen2", "random-qwen3-moe",
                                           "random-deepseek-v3-fp8"));

TEST(CheckpointNetworkTest, RowsThatAnExpertDoesNotGetHaveNoWeight) {
  const fs::path model = kModels / "families" / "random-llama4-text";
  CheckpointSourceOptions options{test::Reference(model).Ids(), {}};
  options.route_all = true;
  CheckpointSource source(Checkpoint::Open(model, StoredFormats()), options, BuiltinFormats(),
                          NullLog());
  const std::vector<int> wanted = {0};
  EXPECT_THROW(source.Collect(wanted), Error);
}

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
  CheckpointSource source(Checkpoint::Open(model, StoredFormats()),
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
