#include "lib/report/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "formats/builtin.h"
#include "lib/core/error.h"
#include "tests/report/sample_report.h"

namespace hif8 {
namespace {

using ::testing::HasSubstr;

Report Compared(std::vector<ComparisonReport> rows) {
  Report report;
  for (const char* name : {"a", "b.c", "d'e"}) {
    LayerReport layer;
    layer.name = name;
    layer.quantized = true;
    layer.weight = OperandReport{};
    layer.weight->format = "hif8";
    layer.activation = layer.weight;
    report.layers.push_back(layer);
  }
  report.comparisons = std::move(rows);
  return report;
}

ComparisonReport Row(const std::string& layer, const std::string& operand,
                     const std::string& format, double sqnr) {
  return {layer, operand, format, sqnr, 0.0, 0.0};
}

TEST(Advice, NamesLayersByWhatTheyGain) {
  const Report report =
      Compared({Row("a", "weight", "mxfp8", 30.05), Row("a", "weight", "hif8", 30),
                Row("b.c", "weight", "mxfp8", 25), Row("b.c", "weight", "hif8", 30),
                Row("b.c", "weight", "int8", 31), Row("d'e", "weight", "mxfp8", 33),
                Row("d'e", "weight", "hif8", 30)});
  const std::vector<Advice> advice = Advise(report, BuiltinFormats(), 0);
  ASSERT_EQ(advice.size(), 2u) << "0.05 dB is nothing, and no format is better for all";
  EXPECT_EQ(advice[0].layer, "d'e");
  EXPECT_EQ(advice[0].now.Name(), "hif8");
  EXPECT_EQ(advice[0].better.Name(), "mxfp8");
  EXPECT_DOUBLE_EQ(advice[0].gain_db, 3);
  EXPECT_EQ(advice[0].how, "- {match: '^d\\''e$', weights: {format: mxfp8, rule: max}}");
  EXPECT_EQ(advice[1].layer, "b.c");
  EXPECT_EQ(advice[1].how, "- {match: '^b\\.c$', weights: {format: int8}}");
  EXPECT_EQ(Advise(report, BuiltinFormats(), 1).size(), 1u);
}

TEST(Advice, WhatHelpsAllIsSaidOnce) {
  const Report report =
      Compared({Row("a", "activation", "hif8", 30), Row("a", "activation", "hif8:mse", 31),
                Row("b.c", "activation", "hif8", 30), Row("b.c", "activation", "hif8:mse", 32),
                Row("b.c", "activation", "int8", 34)});
  const std::vector<Advice> advice = Advise(report, BuiltinFormats(), 0);
  ASSERT_EQ(advice.size(), 2u);
  EXPECT_EQ(advice[0].layer, "");
  EXPECT_EQ(advice[0].better.Name(), "hif8:mse") << "int8 was not measured for every layer";
  EXPECT_DOUBLE_EQ(advice[0].gain_db, 1.5);
  EXPECT_EQ(advice[0].how, "--set activations.rule=mse");
  EXPECT_EQ(advice[1].layer, "b.c");
  EXPECT_DOUBLE_EQ(advice[1].gain_db, 4);
  EXPECT_EQ(advice[1].how, "- {match: '^b\\.c$', activations: {format: int8}}");
  const std::string text = AdviceText(advice);
  EXPECT_THAT(text,
              HasSubstr("all layers (mean), activation: hif8 has 30.00 dB, hif8:mse has 31.50 "
                        "dB: +1.50 dB\n    --set activations.rule=mse\n"));
  EXPECT_THAT(text, HasSubstr("below 'overrides:'"));
}

TEST(Advice, OutputsAndTheCacheHaveTheirOwnKeys) {
  Report report = Compared({Row("a", "output", "hif8", 30), Row("a", "output", "mxfp8", 32),
                            Row("attn.k", "k", "hif8", 30), Row("attn.k", "k", "int8", 33)});
  report.kv_cache.push_back({"attn", OperandReport{}, std::nullopt});
  report.kv_cache[0].k->format = "hif8";
  const std::vector<Advice> advice = Advise(report, BuiltinFormats(), 0);
  ASSERT_EQ(advice.size(), 2u);
  EXPECT_EQ(advice[0].how, "--set kv_cache.format=int8");
  EXPECT_EQ(advice[1].how,
            "--set weights.format=mxfp8 --set weights.rule=max "
            "--set activations.format=mxfp8 --set activations.rule=max");
  // No choice is the output that was written.
  report.layers[0].activation->format = "int8";
  EXPECT_EQ(Advise(report, BuiltinFormats(), 0).size(), 1u);
}

TEST(Advice, LayersThatShareAnInputAreOneLine) {
  const Report report =
      Compared({Row("a", "activation", "hif8", 30.25), Row("a", "activation", "int8", 33.5),
                Row("a", "output", "hif8", 30), Row("a", "output", "int8", 31),
                Row("b.c", "activation", "hif8", 29), Row("b.c", "activation", "int8", 25),
                Row("b.c", "output", "hif8", 30), Row("b.c", "output", "int8", 20),
                Row("d'e", "activation", "hif8", 30.25), Row("d'e", "activation", "int8", 33.5),
                Row("d'e", "output", "hif8", 28), Row("d'e", "output", "int8", 33)});
  const std::vector<Advice> advice = Advise(report, BuiltinFormats(), 0);
  ASSERT_EQ(advice.size(), 2u) << "what helps all is enough for the inputs";
  EXPECT_EQ(advice[0].how, "--set activations.format=int8");
  EXPECT_EQ(advice[1].layer, "a, d'e");
  EXPECT_DOUBLE_EQ(advice[1].now.sqnr_db, 29);
  EXPECT_DOUBLE_EQ(advice[1].better.sqnr_db, 32);
  EXPECT_EQ(advice[1].how,
            "- {match: '^(a|d\\''e)$', weights: {format: int8}, activations: {format: int8}}");
}

TEST(Advice, ExactAndEqualChoices) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<Advice> advice =
      Advise(Compared({Row("a", "weight", "hif8", 30), Row("a", "weight", "mxfp8", inf),
                       Row("b.c", "weight", "hif8", inf), Row("b.c", "weight", "mxfp8", inf)}),
             BuiltinFormats(), 0);
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice[0].layer, "a");
  EXPECT_EQ(advice[0].gain_db, inf);
  EXPECT_EQ(nlohmann::json::parse(AdviceJson(advice))["advice"][0]["better"]["sqnr_db"], "inf");
}

TEST(Advice, NothingComparedSaysHow) {
  try {
    Advise(hif8::testing::SampleReport(), BuiltinFormats(), 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_THAT(error.hint(), HasSubstr("--compare"));
  }
  EXPECT_THAT(AdviceText(Advise(Compared({Row("a", "weight", "hif8", 30)}), BuiltinFormats(), 0)),
              HasSubstr("nothing that was compared is better"));
}

}  // namespace
}  // namespace hif8
