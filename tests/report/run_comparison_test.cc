// Two runs side by side: what is matched, what became worse, gates over regressions, and every form
// of it.
#include "lib/report/run_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "lib/core/error.h"
#include "lib/report/writer.h"
#include "tests/report/documents.h"
#include "tests/report/sample_report.h"

namespace hif8 {
namespace {

using testing::DataOf;
using ::testing::HasSubstr;
using testing::Json;
using testing::KeepsTo;
using ::testing::Not;
using testing::SampleReport;

constexpr double kInf = std::numeric_limits<double>::infinity();

// The sample, in which conv1 was better, 'head' quantized, and a layer 'stem' present.
Report Before() {
  Report r = SampleReport();
  r.layers[1].weight->sqnr_db = 31.0;
  r.layers[1].output->sqnr_db = 20.5;
  r.layers[2].quantized = true;
  r.layers.push_back(r.layers[1]);
  r.layers.back().name = "stem";
  r.network.outputs[0].sqnr_db = 15.0;
  r.network.perplexity->quantized = 12.25;
  r.coverage.parameters = 0.98;
  r.model.bytes_after = 2000000;
  r.kv_cache[0].v->sqnr_db = 26;
  return r;
}

struct Pair {
  Report current = SampleReport();
  Report baseline = Before();

  RunComparison Compare() const { return CompareRuns(current, "out/", baseline, "baseline/"); }
  GateResult Gate(const std::string& text) const {
    return EvaluateGate(ParseGate(text, true), current, &baseline);
  }
  std::string Write(const std::string& form, const WriteOptions& options = {}) const {
    return ReportWriters().Get(form).WriteComparison(Compare(), options);
  }
};

TEST(RunComparison, MatchesByName) {
  Pair pair;
  pair.current.layers[0].name = "new";
  pair.baseline.network.outputs.push_back({"aux", 3.0, 0.5, {}});
  const RunComparison runs = pair.Compare();
  ASSERT_EQ(runs.layers.size(), 2u);
  EXPECT_EQ(runs.layers[0].current->name, "conv1");
  EXPECT_EQ(runs.layers[0].baseline->output->sqnr_db, 20.5);
  std::vector<std::string> names;
  for (const Unmatched& item : runs.unmatched) {
    names.push_back(item.kind + " " + item.name + (item.in_current ? " now" : " before"));
  }
  EXPECT_THAT(names, ::testing::ElementsAre("layer new now",
                                            "layer model.layers.0.mlp,\"down\"|proj before",
                                            "layer stem before", "output aux before"));
  ASSERT_EQ(runs.restated.size(), 1u);
  EXPECT_EQ(runs.restated[0].current->name, "head");
}

TEST(RunComparison, WorseIsWhatTheMetricSays) {
  EXPECT_EQ(WorseBy(Better::kHigher, 18.0, 20.5), 2.5);
  EXPECT_EQ(WorseBy(Better::kLower, 18.0, 20.5), -2.5);
  EXPECT_EQ(WorseBy(Better::kNeither, 18.0, 20.5), std::nullopt);
  EXPECT_EQ(WorseBy(Better::kHigher, {}, 20.5), std::nullopt);
  EXPECT_EQ(WorseBy(Better::kHigher, kInf, kInf), 0.0);
  EXPECT_EQ(WorseBy(Better::kHigher, 30.0, kInf), kInf);
  EXPECT_EQ(WorseBy(Better::kHigher, kInf, 30.0), -kInf);
  for (const Metric& metric : Metrics()) {
    const bool quality = metric.name.find("sqnr") != std::string::npos ||
                         metric.name.find("_rate") != std::string::npos ||
                         metric.name.find("cosine") != std::string::npos ||
                         metric.name.starts_with("coverage") || metric.name.starts_with("size");
    EXPECT_TRUE(!quality || metric.better != Better::kNeither) << metric.name;
  }
}

TEST(RegressionGate, HoldsTheChangeAgainstTheLimit) {
  const Pair pair;
  EXPECT_TRUE(pair.Gate("regression(output_sqnr)>2.25").Passed());
  EXPECT_EQ(pair.Gate("regression(output_sqnr)>2").Message(),
            "gate regression(output_sqnr)>2 failed for 1 of 2, 1 without a partner left out: conv1 "
            "(2.25 worse: 18.25 after 20.5)");
  EXPECT_FALSE(pair.Gate("regression(network_sqnr)>0.7").Passed());
  EXPECT_TRUE(pair.Gate("regression(network_sqnr)>0.9").Passed());
  EXPECT_FALSE(pair.Gate("regression(perplexity)>=0.25").Passed());
  EXPECT_FALSE(pair.Gate("regression(coverage)>0.005").Passed());
  EXPECT_FALSE(pair.Gate("regression(size)>99999").Passed());
  EXPECT_TRUE(pair.Gate("regression(size)>100000").Passed());
  EXPECT_FALSE(pair.Gate("regression(size_ratio)>0.01").Passed());
  EXPECT_TRUE(pair.Gate("regression(argmax_agreement)>0").Passed());
  EXPECT_TRUE(pair.Gate("regression(loss_gap_percent)>0").Passed());
  EXPECT_FALSE(pair.Gate("regression(kv_sqnr)>0.5").Passed());
  EXPECT_TRUE(pair.Gate("output_sqnr<18").Passed());  // others are of the current run
}

TEST(RegressionGate, WhatWasNotMeasuredIsNoPass) {
  Pair pair;
  pair.baseline.network = {};
  for (const char* metric : {"network_sqnr", "perplexity", "argmax_agreement"}) {
    const GateResult result = pair.Gate("regression(" + std::string(metric) + ")>1");
    EXPECT_EQ(result.error, std::string(metric) + " was measured nowhere in both runs");
    EXPECT_FALSE(result.Passed());
  }
  pair.baseline.layers[1].output->sqnr_db.reset();
  EXPECT_THAT(pair.Gate("regression(output_sqnr)>9").error, HasSubstr("not measured for 1 of 2"));
  pair.baseline.layers.clear();
  EXPECT_FALSE(pair.Gate("regression(output_sqnr)>9").Passed());
}

TEST(RegressionGate, ErrorsSayWhatIsWrong) {
  const auto message = [](const std::string& text, bool baseline) -> std::string {
    try {
      ParseGate(text, baseline);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.message() + " / " + error.hint();
    }
    return "";
  };
  EXPECT_THAT(message("regression(output_sqnr)>1", false), HasSubstr("OUT BASELINE"));
  EXPECT_EQ(message("regression(output_sqnr)>1", true), "");
  EXPECT_THAT(message("regression(output_sqnr)<1", true), HasSubstr("expected > or >=, found <"));
  EXPECT_THAT(message("regression(ouptut_sqnr)>1", true), HasSubstr("did you mean 'output_sqnr'"));
  EXPECT_THAT(message("regression(weight_scale)>1", true), HasSubstr("neither a higher nor"));
  EXPECT_THAT(message("regression(output_sqnr)>x", true), HasSubstr("found 'x'"));
  EXPECT_THAT(message("regression(output_sqnr>1", true), HasSubstr("unknown metric"));
}

TEST(ComparisonWriters, TextPutsTheWorstChangeFirst) {
  const std::string text = Pair().Write("text");
  const size_t conv = text.find("conv1");
  EXPECT_LT(conv, text.find("model.layers.0.mlp"));
  EXPECT_THAT(text, HasSubstr("18.25  -2.25 ▼"));
  EXPECT_THAT(text, HasSubstr("network_sqnr of out: 14.20 after 15.00 (-0.80 ▼)"));
  EXPECT_THAT(text, HasSubstr("kept now, quantized before: head"));
  EXPECT_THAT(text, HasSubstr("only in baseline/: layer stem"));
  WriteOptions narrow;
  narrow.width = 60;  // two metrics fit beside the shortest names
  narrow.unicode = false;
  std::istringstream lines(Pair().Write("text", narrow));
  std::string first;
  std::getline(lines, first);
  EXPECT_LE(first.size(), 60u);
  EXPECT_THAT(Pair().Write("text", narrow), HasSubstr("worse"));
}

TEST(ComparisonWriters, MarkdownCsvAndJunit) {
  EXPECT_THAT(Pair().Write("markdown"), HasSubstr("| conv1 | 18.25 | -2.25 ▼ |"));
  EXPECT_THAT(Pair().Write("csv"), HasSubstr("output_sqnr,conv1,18.25,20.5,-2.25,2.25\r\n"));
  EXPECT_THAT(Pair().Write("csv"), HasSubstr("perplexity,network,12.5,12.25,0.25,0.25\r\n"));
  WriteOptions options;
  options.gates = {Pair().Gate("regression(output_sqnr)>1")};
  const std::string junit = Pair().Write("junit", options);
  EXPECT_THAT(junit, HasSubstr("tests=\"2\" failures=\"1\""));
  EXPECT_THAT(junit, HasSubstr("output_sqnr is 2.25 worse: 18.25 after 20.5"));
  EXPECT_THAT(junit, HasSubstr("name=\"layer stem\"><skipped message=\"only in baseline/\"/>"));
}

TEST(ComparisonWriters, JsonKeepsToItsSchema) {
  const std::string json = Pair().Write("json");
  const Json root = Json::parse(json);
  EXPECT_EQ(root["unmatched"], Json::parse(R"([{"kind":"layer","name":"stem","in":"baseline"}])"));
  EXPECT_EQ(root["baseline"]["path"], "baseline/");
  EXPECT_TRUE(KeepsTo("comparison", json));
}

TEST(ComparisonWriters, HtmlHoldsBothRuns) {
  Pair pair;
  pair.baseline.layers.back().name = "</script><b>";
  const std::string html = pair.Write("html");
  EXPECT_THAT(DataOf(html)["baseline"]["values"],
              ::testing::Contains(Json({"output_sqnr", "conv1", 18.25, 20.5, 2.25})));
  EXPECT_THAT(html, Not(HasSubstr("</script><b>")));
}

}  // namespace
}  // namespace hif8
