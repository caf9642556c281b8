// Networks of which only some layers are quantized.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "formats/builtin.h"
#include "lib/runtime/checkpoint_source.h"
#include "tests/runtime/checkpoint_reference.h"
#include "tests/runtime/write_checkpoint.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;

// A network with some layers quantized is the one that is written with those layers only.
void ExpectVariantsEqualToWritten(
    const fs::path& model, bool all, const std::vector<std::vector<std::string>>& variants,
    const std::function<void(const LayerSet&, const fs::path&)>& write) {
  const auto checkpoint = Checkpoint::Open(model, StoredFormats());
  const test::TemporaryFolder whole;
  write({}, whole.path());
  CheckpointSource source(checkpoint, {test::Reference(model).Ids(), {}}, BuiltinFormats(),
                          NullLog());
  std::map<int, QuantizedActivation> activations;
  for (size_t i = 0; i < checkpoint->activations().size(); ++i) {
    activations[static_cast<int>(i)] = {{&BuiltinFormats().Get("hif8"), 0.25f}, 2.0f};
  }
  std::vector<LayerSet> sets;
  for (const std::vector<std::string>& names : variants) {
    LayerSet& set = sets.emplace_back(checkpoint->layers().size(), false);
    for (size_t i = 0; i < set.size(); ++i) {
      const Layer& layer = checkpoint->layers()[i];
      if (layer.weight < 0 || (layer.optional && !all)) continue;
      for (const std::string& name : names) set[i] = set[i] || layer.name.ends_with(name);
    }
  }
  const auto results = source.MeasureVariants(whole.path(), activations, sets, 0);
  ASSERT_EQ(results.size(), sets.size());
  for (size_t v = 0; v < sets.size(); ++v) {
    const test::TemporaryFolder part;
    write(sets[v], part.path());
    std::map<int, QuantizedActivation> read;
    for (size_t i = 0; i < sets[v].size(); ++i) {
      const int index = checkpoint->layers()[i].activation;
      if (sets[v][i] && index >= 0) read[index] = activations.at(index);
    }
    const Measurement m = source.Measure(part.path(), read, sets[v]);
    EXPECT_NEAR(results[v].perplexity_quantized, m.perplexity_quantized,
                1e-6 * m.perplexity_quantized)
        << v;
    EXPECT_DOUBLE_EQ(results[v].perplexity_original, m.perplexity_original);
    EXPECT_NEAR(results[v].outputs.at(0).error.SqnrDb(), m.outputs.at(0).error.SqnrDb(), 1e-3) << v;
    EXPECT_EQ(results[v].samples, m.samples);
    EXPECT_LT(m.outputs[0].error.SqnrDb(), 200) << "something should be quantized: " << v;
  }
  const auto first = source.MeasureVariants(whole.path(), activations, {&sets[0], 1}, 1);
  EXPECT_EQ(first.at(0).samples, 1u);
  const LayerSet none(checkpoint->layers().size(), false);
  EXPECT_TRUE(std::isinf(source.MeasureVariants(whole.path(), activations, {&none, 1}, 0)[0]
                             .outputs[0]
                             .error.SqnrDb()));
}

TEST(CheckpointVariants, VariantsAreWhatWouldBeWritten) {
  const fs::path model = kModels / "random-llama";
  const auto checkpoint = Checkpoint::Open(model, StoredFormats());
  // q alone shares its input with k and v, which are kept.
  ExpectVariantsEqualToWritten(model, true,
                               {{"layers.1.self_attn.q_proj"},
                                {"layers.0.mlp.down_proj", "layers.1.mlp.up_proj"},
                                {"lm_head"},
                                {"embed_tokens"},
                                {"proj"}},
                               [&](const LayerSet& only, const fs::path& to) {
                                 WriteTestCheckpoint(checkpoint, to, false, true, only);
                               });
}

TEST(CheckpointVariants, VariantsWithExperts) {
  const fs::path model = kModels / "random-qwen3-moe";
  const auto checkpoint = Checkpoint::Open(model, StoredFormats());
  ExpectVariantsEqualToWritten(model, false,
                               {{"experts.1.down_proj"}, {"layers.0.self_attn.o_proj"}, {"proj"}},
                               [&](const LayerSet& only, const fs::path& to) {
                                 WriteTestCheckpoint(checkpoint, to, false, false, only);
                               });
}

// What a kept layer reads is not rounded because a quantized layer reads it too.
TEST(CheckpointVariants, KeptLayersReadTheirInputAsItIs) {
  const fs::path model = kModels / "random-llama";
  const auto checkpoint = Checkpoint::Open(model, StoredFormats());
  const int q = checkpoint->LayerIndex("model.layers.0.self_attn.q_proj");
  const int k = checkpoint->LayerIndex("model.layers.0.self_attn.k_proj");
  const int v = checkpoint->LayerIndex("model.layers.0.self_attn.v_proj");
  const auto& layers = checkpoint->layers();
  ASSERT_EQ(layers.at(static_cast<size_t>(q)).activation,
            layers.at(static_cast<size_t>(k)).activation);
  LayerSet only(layers.size(), false);
  only[static_cast<size_t>(q)] = true;
  CheckpointSource source(checkpoint, {test::Reference(model).Ids(), {}}, BuiltinFormats(),
                          NullLog());
  const std::map<int, QuantizedActivation> activations = {
      {layers[static_cast<size_t>(q)].activation, {{&BuiltinFormats().Get("hif8"), 0.25f}, 2.0f}}};
  // Of decoded weights the files do not tell which are quantized.
  for (const bool simulated : {false, true}) {
    SCOPED_TRACE(simulated);
    const test::TemporaryFolder folder;
    WriteTestCheckpoint(checkpoint, folder.path(), simulated, false, only);
    const Measurement m = source.Measure(folder.path(), activations, only);
    EXPECT_LT(m.output[static_cast<size_t>(q)].SqnrDb(), 60);
    EXPECT_LT(m.accumulated[static_cast<size_t>(q)].SqnrDb(), 60);
    for (const int kept : {k, v}) {
      EXPECT_EQ(m.output[static_cast<size_t>(kept)].count(), 0u) << "nothing to compare";
      EXPECT_TRUE(std::isinf(m.accumulated[static_cast<size_t>(kept)].SqnrDb())) << "block 0";
    }
  }
}

}  // namespace
}  // namespace hif8
