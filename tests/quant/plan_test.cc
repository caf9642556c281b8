#include "lib/quant/plan.h"

#include <gtest/gtest.h>

#include "calibrators/builtin.h"
#include "formats/builtin.h"
#include "lib/core/error.h"
#include "tests/quant/fake_model.h"

namespace hif8 {
namespace {

ParseContext Context() { return {BuiltinFormats(), BuiltinCalibrators()}; }

QuantPlan PlanFor(const FakeModel& model, const std::string& yaml) {
  return MakePlan(model, ParseRecipe("version: 1\n" + yaml, "recipe.yaml", Context()), Context());
}

std::string PlanError(const FakeModel& model, const std::string& yaml) {
  try {
    PlanFor(model, yaml);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.message() + " | " + error.hint();
  }
  return "no error";
}

FakeModel FourBlocks() {
  FakeModel model;
  for (int i = 0; i < 4; ++i) {
    model.AddLinear("layers." + std::to_string(i) + ".up", 8, 4);
    model.AddLinear("layers." + std::to_string(i) + ".down", 4, 8);
  }
  return model;
}

std::string QuantizedNames(const FakeModel& model, const QuantPlan& plan) {
  std::string names;
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    if (plan.layers[i].quantized) names += model.layers()[i].name + " ";
  }
  return names;
}

TEST(Plan, EverythingByDefault) {
  const FakeModel model = FourBlocks();
  const QuantPlan plan = PlanFor(model, "");
  EXPECT_EQ(plan.weights.size(), 8U);
  EXPECT_EQ(plan.ObservedActivations().size(), 8U);
  EXPECT_EQ(plan.weights.at(0).layout.scale_count(), 8U);
  const Coverage coverage = Summarize(model, plan).coverage;
  EXPECT_EQ(coverage.parameters, 1.0);
  EXPECT_EQ(coverage.macs, 1.0);
}

TEST(Plan, KeepAndOnlySayWhy) {
  const FakeModel model = FourBlocks();
  const QuantPlan plan = PlanFor(model, "only: ['up$']\nkeep: ['^layers\\.0']\n");
  EXPECT_EQ(QuantizedNames(model, plan), "layers.1.up layers.2.up layers.3.up ");
  for (const LayerPlan& layer : plan.layers) EXPECT_EQ(layer.quantized, layer.reason.empty());
  EXPECT_EQ(plan.weights.size(), 3U);
}

TEST(Plan, HighPrecisionBlocksNeedToBeKnown) {
  const FakeModel model = FourBlocks();
  EXPECT_NE(PlanError(model, "high_precision_layers: 3\n").find("blocks"), std::string::npos);
  const QuantPlan plan = PlanFor(model, "high_precision_layers: 3\nblocks: 'layers\\.(\\d+)\\.'\n");
  EXPECT_EQ(QuantizedNames(model, plan), "layers.2.up layers.2.down ");
  EXPECT_NE(PlanError(model, "high_precision_layers: 3\nblocks: '(layers)'\n").find("number"),
            std::string::npos);
  EXPECT_NE(PlanError(model, "high_precision_layers: 3\nblocks: 'layers'\n").find("in none"),
            std::string::npos);
}

TEST(Plan, SharedTensorsAgree) {
  FakeModel model = FourBlocks();
  model.mutable_layers()[2].weight = 0;
  EXPECT_EQ(PlanFor(model, "").weights.size(), 7U);
  const std::string error =
      PlanError(model, "overrides:\n- {match: 'layers.1.up', weights: {granularity: tensor}}\n");
  EXPECT_NE(error.find("'layers.0.up' and 'layers.1.up' share"), std::string::npos) << error;
}

TEST(Plan, TilesAreTheFormatsOwn) {
  const FakeModel model = FourBlocks();
  const auto weight = [&](const std::string& text) {
    return PlanFor(model, "weights: {" + text + "}\n").weights.at(0);
  };
  using Tile = TileScales::Tile;
  const WeightPlan usual = weight("format: mxfp8");
  EXPECT_EQ(usual.tile, (Tile{1, 32}));
  EXPECT_EQ(usual.config.granularity, Granularity::kGroup);
  const WeightPlan block = weight("format: mxfp8, granularity: block");
  EXPECT_EQ(block.tile, (Tile{32, 32}));
  EXPECT_EQ(block.config.granularity, Granularity::kBlock);
  EXPECT_EQ(weight("format: nvfp4").tile, (Tile{1, 16}));
  EXPECT_EQ(weight("format: hif8, granularity: block").tile, (Tile{128, 128}));
  for (const char* text : {"format: mxfp4, granularity: block", "format: nvfp4, granularity: block",
                           "format: fp8_e4m3_block, granularity: group"}) {
    const std::string error = PlanError(model, "weights: {" + std::string(text) + "}\n");
    EXPECT_NE(error.find("no such scales"), std::string::npos) << error;
  }
}

// The scales of groups are found when the model runs, what they are stored over before it.
TEST(Plan, Nvfp4ActivationsNeedDataUnlessTheyAreCast) {
  const FakeModel model = FourBlocks();
  const auto activation = [&](const std::string& rule) {
    return PlanFor(model, "activations: {format: nvfp4, rule: " + rule + "}\n").activations.at(0);
  };
  const OperandPlan by_max = activation("max");
  EXPECT_TRUE(by_max.NeedsData());
  EXPECT_EQ(by_max.dynamic->tile.inputs, 16U);
  ScaleChoice choice;
  choice.scale = 0.25F;
  EXPECT_EQ(by_max.With(choice).dynamic->global_scale, 4.0F);
  EXPECT_EQ(by_max.params.target, 448.0 * 6);
  const OperandPlan cast = activation("cast");
  EXPECT_FALSE(cast.NeedsData());
  EXPECT_TRUE(cast.HasStaticScale());
  EXPECT_TRUE(cast.dynamic.has_value());
  EXPECT_NE(
      PlanError(model, "activations: {format: nvfp4, rule: percentile}\n").find("use rule max"),
      std::string::npos);
}

TEST(Plan, OptionalLayersAreAskedFor) {
  FakeModel model = FourBlocks();
  model.mutable_layers()[0].optional = true;
  model.mutable_layers()[0].option = "attention";
  EXPECT_FALSE(PlanFor(model, "").layers[0].quantized);
  EXPECT_TRUE(PlanFor(model, "attention: true\n").layers[0].quantized);
}

TEST(Plan, UnobservedLayersAreTakenBack) {
  const FakeModel model = FourBlocks();
  QuantPlan plan = PlanFor(model, "");
  std::vector<TensorStats> stats(model.activations().size());
  const std::vector<float> ones(4, 1.0F);
  for (size_t i = 0; i < stats.size(); ++i) {
    if (i == 1) continue;
    const float value = i == 2 ? std::numeric_limits<float>::quiet_NaN() : 1.0F;
    TensorView view;
    view.shape = {1};
    view.data = reinterpret_cast<const std::byte*>(&value);
    stats[i].Add(view);
  }
  const std::vector<std::string> kept = KeepUnobserved(model, stats, &plan);
  EXPECT_EQ(kept, (std::vector<std::string>{"layers.0.down", "layers.1.up"}));
  EXPECT_NE(plan.layers[1].reason.find("never observed"), std::string::npos);
  EXPECT_NE(plan.layers[2].reason.find("never finite"), std::string::npos);
  EXPECT_EQ(plan.weights.size(), 6U);
  EXPECT_EQ(plan.activations.size(), 6U);
}

TEST(Plan, CastNeedsNoData) {
  const FakeModel model = FourBlocks();
  EXPECT_TRUE(PlanFor(model, "activations: {rule: cast}\n").ObservedActivations().empty());
}

TEST(Plan, CoverageCountsWhatIsQuantized) {
  FakeModel model = FourBlocks();
  model.AddWeight("bias", {256});
  const QuantPlan plan = PlanFor(model, "only: ['layers.0.up']\n");
  const Coverage coverage = Summarize(model, plan).coverage;
  EXPECT_DOUBLE_EQ(coverage.parameters, 32.0 / (8 * 32 + 256));
  EXPECT_DOUBLE_EQ(coverage.macs, 1.0 / 8);
}

}  // namespace
}  // namespace hif8
