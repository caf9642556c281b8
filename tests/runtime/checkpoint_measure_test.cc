// The quantized network beside the original one, on checkpoints that are small enough for every
// build. The other view of the quantized network is a plain checkpoint of decoded weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/runtime/checkpoint_source.h"
#include "lib/runtime/hidden_states.h"
#include "lib/runtime/memory_plan.h"
#include "lib/runtime/token_scores.h"
#include "tests/runtime/checkpoint_reference.h"
#include "tests/runtime/write_checkpoint.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class CheckpointMeasureTest : public ::testing::Test {
 protected:
  // Weights only: the second network's logits are those of the decoded checkpoint.
  void ExpectEqualToSimulated(const fs::path& model, bool all) {
    const test::TemporaryFolder codes;
    const test::TemporaryFolder decoded;
    const auto checkpoint = Checkpoint::Open(model, StoredFormats());
    WriteTestCheckpoint(checkpoint, codes.path(), false, all);
    WriteTestCheckpoint(checkpoint, decoded.path(), true, all);
    const TokenData ids = test::Reference(model).Ids();
    CheckpointSource source(checkpoint, {ids, {}}, BuiltinFormats(), NullLog());
    CheckpointSource other(Checkpoint::Open(decoded.path(), StoredFormats()), {ids, {}},
                           BuiltinFormats(), NullLog());
    const LayerSet layers(checkpoint->layers().size(), true);
    const Measurement m = source.Measure(codes.path(), {}, layers);
    const auto a = source.Run();
    const auto b = other.Run();
    EXPECT_NEAR(std::log(m.perplexity_original), a.loss, 1e-9);
    EXPECT_NEAR(std::log(m.perplexity_quantized), b.loss, 1e-6);
    EXPECT_NE(a.loss, b.loss);
    double signal = 0;
    double noise = 0;
    uint64_t rows = 0;
    uint64_t equal = 0;
    const auto width = static_cast<ptrdiff_t>(checkpoint->network().spec.vocabulary);
    for (size_t i = 0; i < a.logits.size(); ++i) {
      for (size_t k = 0; k < a.logits[i].size(); ++k) {
        const double x = a.logits[i][k];
        const double d = x - b.logits[i][k];
        signal += x * x;
        noise += d * d;
      }
      for (auto x = a.logits[i].begin(), y = b.logits[i].begin(); x != a.logits[i].end();
           x += width, y += width) {
        ++rows;
        equal += std::max_element(x, x + width) - x == std::max_element(y, y + width) - y ? 1 : 0;
      }
    }
    EXPECT_NEAR(m.outputs.at(0).error.SqnrDb(), 10 * std::log10(signal / noise), 1e-3);
    EXPECT_EQ(m.outputs[0].argmax_rows, rows);
    EXPECT_EQ(m.outputs[0].argmax_equal, equal);

    // The decoded checkpoint, measured as such, is the same network.
    const Measurement simulated = source.Measure(decoded.path(), {}, layers);
    EXPECT_NEAR(simulated.perplexity_quantized, m.perplexity_quantized,
                1e-6 * m.perplexity_quantized);
  }
};

TEST_F(CheckpointMeasureTest, LinearLayersOnly) {
  ExpectEqualToSimulated(kModels / "random-llama", false);
}

TEST_F(CheckpointMeasureTest, HeadAndEmbeddingToo) {
  ExpectEqualToSimulated(kModels / "random-llama", true);
}

TEST_F(CheckpointMeasureTest, TiedEmbeddingServesBothEnds) {
  ExpectEqualToSimulated(kModels / "random-qwen2", true);
}

TEST_F(CheckpointMeasureTest, ExpertsToo) {
  ExpectEqualToSimulated(kModels / "random-qwen3-moe", false);
}

TEST_F(CheckpointMeasureTest, LatentAttentionAndSharedExperts) {
  const fs::path model = kModels / "random-deepseek-v3-fp8";
  const auto checkpoint = Checkpoint::Open(model, StoredFormats());
  const test::TemporaryFolder folder;
  WriteTestCheckpoint(checkpoint, folder.path(), false, false);
  CheckpointSource source(checkpoint, {test::Reference(model).Ids(), {}}, BuiltinFormats(),
                          NullLog());
  std::map<int, QuantizedActivation> all;
  for (size_t i = 0; i < checkpoint->activations().size(); ++i) {
    all[static_cast<int>(i)] = {{&BuiltinFormats().Get("hif8"), 0.25f}, 2.0f};
  }
  const LayerSet layers(checkpoint->layers().size(), true);
  const Measurement m = source.Measure(folder.path(), all, layers);
  for (const char* name : {"self_attn.kv_latent", "self_attn.k_rope", "self_attn.q_b_proj.input",
                           "mlp.shared_experts.down_proj.input", "mlp.gate.input"}) {
    const int index = checkpoint->ActivationIndex(std::string("model.layers.2.") + name);
    ASSERT_GE(index, 0) << name;
    EXPECT_GT(m.activation[static_cast<size_t>(index)].SqnrDb(), 25) << name;
  }
  EXPECT_GT(m.perplexity_quantized, 0);
  EXPECT_GT(m.outputs.at(0).error.SqnrDb(), 5);
}

TEST_F(CheckpointMeasureTest, ActivationsCacheAndProductsAreMeasured) {
  const fs::path model = kModels / "random-llama";
  const auto checkpoint = Checkpoint::Open(model, StoredFormats());
  const test::TemporaryFolder folder;
  WriteTestCheckpoint(checkpoint, folder.path(), false, true);
  CheckpointSource source(checkpoint, {test::Reference(model).Ids(), {}}, BuiltinFormats(),
                          NullLog());
  std::map<int, QuantizedActivation> all;
  for (size_t i = 0; i < checkpoint->activations().size(); ++i) {
    all[static_cast<int>(i)] = {{&BuiltinFormats().Get("hif8"), 0.25f}, 2.0f};
  }
  const LayerSet layers(checkpoint->layers().size(), true);
  const Measurement m = source.Measure(folder.path(), all, layers);
  const auto rows = uint64_t{2 * 48};
  for (size_t i = 0; i < checkpoint->activations().size(); ++i) {
    const std::string& name = checkpoint->activations()[i].name;
    EXPECT_GT(m.activation[i].count(), 0u) << name;
    EXPECT_GT(m.activation[i].SqnrDb(), 25) << name;
    EXPECT_LT(m.activation[i].SqnrDb(), 45) << name;
  }
  for (size_t i = 0; i < checkpoint->layers().size(); ++i) {
    const Layer& layer = checkpoint->layers()[i];
    if (layer.op == "Cache" || layer.op == "Embedding") continue;
    EXPECT_GT(m.output[i].count(), 0u) << layer.name;
    EXPECT_EQ(m.output[i].count(), m.accumulated[i].count()) << layer.name;
    EXPECT_GT(m.output[i].SqnrDb(), 15) << layer.name;
  }
  const auto count = [&](const std::string& name) {
    return m.activation[static_cast<size_t>(checkpoint->ActivationIndex(name))].count();
  };
  EXPECT_EQ(count("model.layers.1.self_attn.k"), rows * 2 * 16);
  EXPECT_EQ(count("model.layers.1.self_attn.q_proj.input"), rows * 64);
  EXPECT_EQ(count("model.layers.1.self_attn.qk.query"), rows * 4 * 16);
  EXPECT_EQ(count("model.layers.1.self_attn.pv.probability"), uint64_t{2 * 4 * 48 * 48});
  EXPECT_EQ(count("lm_head.input"), rows * 64);
  // References are shared: q, k and v read one activation.
  EXPECT_EQ(
      checkpoint
          ->layers()[static_cast<size_t>(checkpoint->LayerIndex("model.layers.0.self_attn.v_proj"))]
          .activation,
      checkpoint->ActivationIndex("model.layers.0.self_attn.q_proj.input"));
}

TEST_F(CheckpointMeasureTest, PropagatedStatisticsComeFromTheQuantizedBlocksBefore) {
  const fs::path model = kModels / "random-llama";
  const auto checkpoint = Checkpoint::Open(model, StoredFormats());
  const test::TemporaryFolder decoded;
  WriteTestCheckpoint(checkpoint, decoded.path(), true, false);
  const TokenData ids = test::Reference(model).Ids();
  CheckpointSource source(checkpoint, {ids, {}}, BuiltinFormats(), NullLog());
  CheckpointSource other(Checkpoint::Open(decoded.path(), StoredFormats()), {ids, {}},
                         BuiltinFormats(), NullLog());
  std::vector<int> all;
  for (size_t i = 0; i < checkpoint->activations().size(); ++i) all.push_back(static_cast<int>(i));
  Propagation propagation;
  propagation.solve = [](int, const TensorStats&) { return std::nullopt; };
  propagation.encode = [&](int index) { return EncodePowerOfTwo(*checkpoint, index); };
  const auto propagated = source.CollectPropagated(all, propagation);
  const auto original = source.Collect(all);
  const auto quantized = other.Collect(all);
  for (int block = 0; block < 3; ++block) {
    const std::string prefix = "model.layers." + std::to_string(block) + ".";
    // A block's first input follows from the blocks before alone.
    const auto first =
        static_cast<size_t>(checkpoint->ActivationIndex(prefix + "self_attn.q_proj.input"));
    EXPECT_EQ(propagated[first].amax(), quantized[first].amax());
    EXPECT_EQ(propagated[first].Percentile(50), quantized[first].Percentile(50));
    EXPECT_EQ(propagated[first].amax() == original[first].amax(), block == 0);
  }
  // Inside a block the weights are the original ones.
  const auto inner =
      static_cast<size_t>(checkpoint->ActivationIndex("model.layers.0.mlp.down_proj.input"));
  EXPECT_EQ(propagated[inner].amax(), original[inner].amax());
  EXPECT_NE(propagated[inner].amax(), quantized[inner].amax());

  // A scale for every activation changes what comes next.
  propagation.solve = [](int, const TensorStats& stats) -> std::optional<QuantizedActivation> {
    EXPECT_GT(stats.count(), 0u);
    return QuantizedActivation{{&BuiltinFormats().Get("hif8"), stats.amax() / 16}, stats.amax()};
  };
  const auto both = source.CollectPropagated(all, propagation);
  const auto last = static_cast<size_t>(checkpoint->ActivationIndex("lm_head.input"));
  EXPECT_GT(both[last].count(), 0u);
  EXPECT_NE(both[last].amax(), propagated[last].amax());
}

TEST_F(CheckpointMeasureTest, HiddenStatesInAFileGiveTheSame) {
  const fs::path model = kModels / "random-mistral-window";
  const TokenData ids = test::Reference(model).Ids();
  CheckpointSource memory(Checkpoint::Open(model, StoredFormats()), {ids, {}}, BuiltinFormats(),
                          NullLog());
  CheckpointSourceOptions options{ids, ids};
  options.evaluation.samples = {{1, 2}};
  // The least that its largest block needs leaves no room for hidden states.
  const auto checkpoint = Checkpoint::Open(model, StoredFormats());
  const auto rows = static_cast<int64_t>(ids.samples[0].size());
  for (options.memory_limit = kProgramMemory;; options.memory_limit += 1024) {
    try {
      const MemoryPlan plan =
          PlanMemory(checkpoint->network(), rows, 1, false, options.memory_limit);
      EXPECT_FALSE(plan.prefetch);
      EXPECT_LT(plan.hidden_states, ids.samples.size() * ids.samples[0].size() * sizeof(float) *
                                        static_cast<size_t>(checkpoint->network().spec.hidden));
      break;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kEnvironment);
    }
  }
  CheckpointSource file(checkpoint, options, BuiltinFormats(), NullLog());
  EXPECT_EQ(memory.Run().logits, file.Run().logits);
  HiddenStates spilled({3, 1}, 0);
  EXPECT_FALSE(spilled.in_memory());
}

TEST_F(CheckpointMeasureTest, SamplesMayDifferInLength) {
  const fs::path model = kModels / "random-llama";
  TokenData ids = test::Reference(model).Ids();
  CheckpointSource whole(Checkpoint::Open(model, StoredFormats()), {ids, {}}, BuiltinFormats(),
                         NullLog());
  const auto expected = whole.Run();
  ids.samples[1].resize(7);
  CheckpointSource cut(Checkpoint::Open(model, StoredFormats()), {ids, {}}, BuiltinFormats(),
                       NullLog());
  const auto trace = cut.Run();
  ASSERT_EQ(trace.logits[1].size(), 7u * 256u);
  for (size_t i = 0; i < trace.logits[1].size(); ++i) {
    ASSERT_NEAR(trace.logits[1][i], expected.logits[1][i], 1e-4);
  }
  EXPECT_EQ(trace.logits[0], expected.logits[0]);
}

TEST_F(CheckpointMeasureTest, IdsOutsideTheVocabularyAndUnknownArchitectures) {
  TokenData ids;
  ids.samples = {{1, 2}, {3, 256}};
  ids.source = "ids.npy";
  try {
    const CheckpointSource source(Checkpoint::Open(kModels / "random-llama", StoredFormats()),
                                  {ids, {}}, BuiltinFormats(), NullLog());
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kModel);
    EXPECT_THAT(error.message(), HasSubstr("sample 1, position 1"));
    EXPECT_THAT(error.message(), HasSubstr("found 256"));
    EXPECT_EQ(error.where(), "ids.npy");
  }
  ids.samples = {{1, 2}};
  const test::TemporaryFolder folder;
  for (const char* file : {"model.safetensors", "config.json"}) {
    fs::copy_file(kModels / "random-qwen2" / file, folder.path() / file);
  }
  const auto change = [&](const std::string& key, const nlohmann::json& value) {
    auto config = nlohmann::json::parse(test::ReadBytes(kModels / "random-qwen2" / "config.json"));
    config[key] = value;
    test::WriteBytes(folder.path() / "config.json", config.dump());
    try {
      const auto checkpoint = Checkpoint::Open(folder.path(), StoredFormats());
      EXPECT_EQ(checkpoint->weights().size(), 22u);  // weights can be quantized all the same
      const CheckpointSource source(checkpoint, {ids, {}}, BuiltinFormats(), NullLog());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kModel);
      return error.message() + " | " + error.hint();
    }
    return std::string();
  };
  EXPECT_EQ(change("hidden_act", "silu"), "");
  EXPECT_THAT(change("model_type", "gpt9"), HasSubstr("'gpt9'"));
  for (const char* type : {"llama", "mistral", "PanguEmbedded", "qwen2", "qwen3", "gpt_oss"}) {
    EXPECT_THAT(change("model_type", "gpt9"), HasSubstr(type));
  }
  EXPECT_THAT(change("rope_scaling", {{"type", "longrope"}, {"factor", 2}}),
              HasSubstr("original_max_position_embeddings"));
  for (const char* type : {"dynamic", "longest"}) {
    EXPECT_THAT(change("rope_scaling", {{"type", type}, {"factor", 2}}), HasSubstr(type));
    EXPECT_THAT(change("rope_scaling", {{"rope_type", type}, {"factor", 2}}), HasSubstr(type));
    EXPECT_THAT(change("rope_parameters", {{"rope_type", type}, {"factor", 2}}), HasSubstr(type));
  }
  EXPECT_THAT(change("hidden_act", "gulu"), HasSubstr("'gulu'"));
  EXPECT_THAT(change("num_key_value_heads", 3), HasSubstr("num_key_value_heads"));
  EXPECT_THAT(change("intermediate_size", 100), HasSubstr("gate_proj.weight"));
  EXPECT_THAT(change("num_hidden_layers", 4), HasSubstr("model.layers.3"));
  EXPECT_THAT(change("hidden_size", int64_t{1} << 60), HasSubstr("hidden_size"));
  EXPECT_THAT(change("hidden_size", "x"), HasSubstr("hidden_size"));
  EXPECT_THAT(change("tie_word_embeddings", false), HasSubstr("lm_head.weight"));
}

TEST(TokenScoresTest, PiecesOfTheVocabularyGiveWhatTheWholeGives) {
  const std::vector<int64_t> ids = {2, 0, 1};
  // [T = 3, vocabulary = 4]
  const std::vector<std::vector<float>> logits = {{1, 5, 2, 5}, {-3, 80, 79, 1}, {0, 0, 0, 7}};
  TokenScores scores(ids, ids.size());
  std::vector<float> left;
  std::vector<float> right;
  double expected = 0;
  for (size_t t = 0; t < 3; ++t) {
    left.insert(left.end(), {logits[t][0]});
    right.insert(right.end(), {logits[t][1], logits[t][2], logits[t][3]});
    double sum = 0;
    for (const float x : logits[t]) sum += std::exp(double{x});
    if (t < 2) expected += std::log(sum) - logits[t][static_cast<size_t>(ids[t + 1])];
  }
  scores.Add(left, 0, 1);
  scores.Add(right, 1, 3);
  EXPECT_NEAR(scores.NegativeLogLikelihood(), expected, 1e-12);
  EXPECT_EQ(scores.predicted(), 2u);
  EXPECT_EQ(scores.Predictions(), (std::vector<int64_t>{1, 1, 3}));
}

}  // namespace
}  // namespace hif8
