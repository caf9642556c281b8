#include "lib/report/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "lib/core/error.h"
#include "lib/report/metrics.h"
#include "tests/report/sample_report.h"

namespace hif8 {
namespace {

using ::testing::HasSubstr;
using testing::SampleReport;

GateResult Evaluate(const std::string& text, const Report& report = SampleReport()) {
  return EvaluateGate(ParseGate(text), report);
}

TEST(Gate, Parses) {
  for (const auto& [text, op] :
       std::vector<std::pair<std::string, std::string>>{{"output_sqnr<20", "<"},
                                                        {"output_sqnr <= 20", "<="},
                                                        {"output_sqnr>20", ">"},
                                                        {"output_sqnr >=20", ">="}}) {
    const Gate gate = ParseGate(text);
    EXPECT_EQ(gate.metric, "output_sqnr");
    EXPECT_EQ(gate.op, op);
    EXPECT_EQ(gate.limit, 20);
    EXPECT_EQ(gate.text, text);
  }
  EXPECT_EQ(ParseGate("coverage<0.5").limit, 0.5);
  EXPECT_EQ(ParseGate("weight_zero_rate>1e-3").limit, 1e-3);
}

TEST(Gate, WhatIsNoGate) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      ParseGate(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.message() + " / " + error.hint();
    }
    return "";
  };
  EXPECT_THAT(message(""), HasSubstr("a gate needs"));
  EXPECT_THAT(message("output_sqnr"), HasSubstr("a gate needs"));
  EXPECT_THAT(message("output_sqnr=3"), HasSubstr("a gate needs"));
  EXPECT_THAT(message("outptu_sqnr<3"), HasSubstr("did you mean 'output_sqnr'?"));
  EXPECT_THAT(message("network_sqrn<3"), HasSubstr("did you mean 'network_sqnr'?"));
  EXPECT_THAT(message("op<3"), HasSubstr("unknown metric 'op'"));
  EXPECT_THAT(message("output_sqnr<"), HasSubstr("found ''"));
  EXPECT_THAT(message("output_sqnr<20dB"), HasSubstr("found '20dB'"));
  EXPECT_THAT(message("output_sqnr<nan"), HasSubstr("found 'nan'"));
}

TEST(Goal, TakesWhatTellsHowGoodTheNetworkIs) {
  EXPECT_TRUE(ParseGoal("network_sqnr>=30").higher_is_better);
  EXPECT_TRUE(ParseGoal("argmax_agreement>0.99").higher_is_better);
  EXPECT_FALSE(ParseGoal("perplexity<12").higher_is_better);
  EXPECT_EQ(ParseGoal("loss_gap<=0.1").gate.metric, "loss_gap_percent");
  EXPECT_EQ(ParseGoal("loss_gap_percent<=0.1").gate.limit, 0.1);
  const auto message = [](const std::string& text) -> std::string {
    try {
      ParseGoal(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.message() + " / " + error.hint();
    }
    return "";
  };
  EXPECT_THAT(message("network_sqnr<=30"), HasSubstr("expected >= or >"));
  EXPECT_THAT(message("perplexity>=3"), HasSubstr("expected <= or <"));
  EXPECT_THAT(message("output_sqnr>=3"), HasSubstr("known: network_sqnr"));
  EXPECT_THAT(message("netwrk_sqnr>=3"), HasSubstr("did you mean 'network_sqnr'?"));
}

TEST(Goal, HoldsForTheWorstOutput) {
  Report report = SampleReport();
  report.network.outputs.push_back({"other", 11.5, 0.9, 0.5});
  const Goal goal = ParseGoal("network_sqnr>=11.5");
  EXPECT_EQ(WorstValue(goal, report), 11.5);
  EXPECT_TRUE(Holds(goal, 11.5));
  EXPECT_FALSE(Holds(ParseGoal("network_sqnr>11.5"), 11.5));
  EXPECT_EQ(WorstValue(ParseGoal("loss_gap<=1"), report), 1.64);
  report.network.perplexity.reset();
  EXPECT_THROW(WorstValue(ParseGoal("perplexity<=1"), report), Error);
  report.network.outputs[0].sqnr_db.reset();
  EXPECT_THROW(WorstValue(goal, report), Error);
}

TEST(Gate, FailsIfItHoldsForAnyLayer) {
  EXPECT_EQ(Evaluate("output_sqnr<18.25").failures, 0u);
  EXPECT_TRUE(Evaluate("output_sqnr<18.25").Passed());
  EXPECT_EQ(Evaluate("output_sqnr<=18.25").failures, 1u);
  EXPECT_EQ(Evaluate("output_sqnr<20").failures, 1u);
  EXPECT_EQ(Evaluate("output_sqnr<20").items.size(), 2u);  // the kept layer has no output
  EXPECT_EQ(Evaluate("output_sqnr<30").failures, 2u);
  EXPECT_EQ(Evaluate("output_sqnr<20").Message(),
            "gate output_sqnr<20 failed for 1 of 2: conv1 (18.25)");
  EXPECT_EQ(Evaluate("weight_zero_rate>0.00005").error.empty(), false);  // one has none
}

TEST(Gate, InfinityPassesAnyLowerBound) {
  EXPECT_EQ(Evaluate("weight_sqnr<1e300").failures, 1u);  // the other layer
  EXPECT_EQ(Evaluate("weight_sqnr<20").failures, 0u);
  EXPECT_EQ(Evaluate("weight_sqnr>1e300").failures, 1u);
}

TEST(Gate, NetworkMetrics) {
  EXPECT_TRUE(Evaluate("network_sqnr<14").Passed());
  EXPECT_FALSE(Evaluate("network_sqnr<15").Passed());
  EXPECT_FALSE(Evaluate("network_cosine<0.99").Passed());
  EXPECT_FALSE(Evaluate("argmax_agreement<0.995").Passed());
  EXPECT_FALSE(Evaluate("perplexity>12.4").Passed());
  EXPECT_TRUE(Evaluate("perplexity>12.6").Passed());
  EXPECT_FALSE(Evaluate("loss_gap_percent>1").Passed());
  EXPECT_FALSE(Evaluate("coverage<0.98").Passed());
  EXPECT_TRUE(Evaluate("coverage_macs<0.98").Passed());
  EXPECT_TRUE(Evaluate("size_ratio>0.26").Passed());
  EXPECT_FALSE(Evaluate("size_ratio>0.25").Passed());
  EXPECT_EQ(Evaluate("kv_sqnr<26").Message(),
            "gate kv_sqnr<26 failed for 1 of 2: model.layers.0.self_attn: v (25)");
}

TEST(Gate, NothingMeasuredIsNoPass) {
  Report r = SampleReport();
  EXPECT_EQ(
      Evaluate("accumulated_sqnr<1").error,
      "accumulated_sqnr was not measured for 1 of 2, such as model.layers.0.mlp,\"down\"|proj");
  r.network = {};
  r.coverage = {};
  r.kv_cache.clear();
  r.model.bytes_after.reset();
  for (const char* metric : {"network_sqnr", "perplexity", "loss_gap_percent", "coverage",
                             "kv_sqnr", "size_ratio", "argmax_agreement"}) {
    const GateResult result = Evaluate(std::string(metric) + "<0", r);
    EXPECT_FALSE(result.Passed()) << metric;
    EXPECT_EQ(result.error, std::string(metric) + " was measured nowhere");
  }
  r.layers.clear();
  EXPECT_FALSE(Evaluate("output_sqnr<0", r).Passed());
}

TEST(Gate, NamesTheFirstTenOffenders) {
  Report r;
  for (int i = 0; i < 13; ++i) {
    LayerReport layer;
    layer.name = "l" + std::to_string(i);
    layer.quantized = true;
    layer.output = OperandReport{};
    layer.output->sqnr_db = i;
    r.layers.push_back(layer);
  }
  EXPECT_EQ(
      Evaluate("output_sqnr<12", r).Message(),
      "gate output_sqnr<12 failed for 12 of 13: l0 (0), l1 (1), l2 (2), l3 (3), l4 (4), l5 (5), "
      "l6 (6), l7 (7), l8 (8), l9 (9), and 2 more");
  EXPECT_THAT(Evaluate("output_sqnr<10", r).Message(), ::testing::EndsWith("l9 (9)"));
}

TEST(Gate, AnUndecidedGateOutranksAFailedOne) {
  const auto code = [](const std::vector<std::string>& gates) {
    std::vector<GateResult> results;
    results.reserve(gates.size());
    for (const std::string& gate : gates) results.push_back(Evaluate(gate));
    try {
      RequireGates(results);
    } catch (const Error& error) {
      EXPECT_EQ(error.where(), "--fail-if");
      return std::make_pair(static_cast<int>(error.code()), error.others().size());
    }
    return std::make_pair(0, size_t{0});
  };
  EXPECT_EQ(code({}), std::make_pair(0, size_t{0}));
  EXPECT_EQ(code({"output_sqnr<10"}), std::make_pair(0, size_t{0}));
  EXPECT_EQ(code({"output_sqnr<20", "coverage<0.99"}), std::make_pair(1, size_t{1}));
  EXPECT_EQ(code({"output_sqnr<20", "accumulated_sqnr<1"}), std::make_pair(2, size_t{1}));
}

TEST(Gate, EveryListedMetricParses) {
  for (const Metric& metric : Metrics()) {
    EXPECT_EQ(ParseGate(metric.name + "<1").metric, metric.name);
    EXPECT_FALSE(metric.help.empty());
  }
}

}  // namespace
}  // namespace hif8
