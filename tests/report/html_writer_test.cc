// The HTML report as text: one file, nothing from outside, names that cannot break out of it, its
// size. What a browser makes of it is tests/report_browser's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <regex>

#include "lib/report/writer.h"
#include "tests/report/documents.h"
#include "tests/report/sample_report.h"

namespace hif8 {
namespace {

using testing::DataOf;
using ::testing::HasSubstr;
using testing::Json;
using ::testing::Not;
using testing::SampleReport;

constexpr const char* kEvil = "</script><img src=x onerror=\"alert(1)\"><!--";

std::string Html(const Report& report, const WriteOptions& options = {}) {
  return ReportWriters().Get("html").Write(report, options);
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(HtmlWriter, HoldsWhatTheReportSays) {
  const Json data = DataOf(Html(SampleReport()));
  EXPECT_EQ(data["layers"], 3);
  EXPECT_EQ(data["quantized"], 2);
  ASSERT_EQ(data["rows"].size(), 3u);
  size_t output = 0;
  for (size_t i = 0; i < data["columns"].size(); ++i) {
    if (data["columns"][i]["name"] == "output_sqnr") output = i;
  }
  EXPECT_EQ(data["rows"][0][0], "conv1");  // the worst first
  EXPECT_EQ(data["rows"][0][output], 18.25);
  EXPECT_EQ(data["depth"][0], 1);
  EXPECT_TRUE(data["rows"][2][output].is_null());
  EXPECT_EQ(data["exponents"][0]["weight"]["after"]["counts"], Json({1, 0, 4, 3}));
  EXPECT_EQ(data["report"]["coverage"]["parameters"], 0.97);
  EXPECT_EQ(data["report"]["recipe"]["resolved"], "version: 1\n");
}

TEST(HtmlWriter, NeedsNothingFromOutside) {
  const std::string html = Html(SampleReport());
  const std::regex reference(R"re(\s(?:src|href)="([^"]*)")re");
  for (std::sregex_iterator at(html.begin(), html.end(), reference), end; at != end; ++at) {
    const std::string target = (*at)[1];
    EXPECT_TRUE(target.starts_with("#") || target.starts_with("data:")) << target;
  }
  EXPECT_THAT(html, Not(HasSubstr("@import")));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, HasSubstr("Permission is hereby granted, free of charge"));  // uPlot's licence
}

TEST(HtmlWriter, TextOfModelsStaysText) {
  Report report = SampleReport();
  const std::string plain = Html(report);
  report.model.path = kEvil;
  report.layers[0].name = kEvil;
  report.layers[1].op = kEvil;
  report.layers[2].reason = kEvil;
  report.run.warnings = {kEvil, std::string("\xff\0\x1b", 3)};
  report.run.command = kEvil;
  report.recipe.resolved = kEvil;
  report.comparisons = {{kEvil, "weight", kEvil, 1.0, 0.0, 0.0}};
  report.network.outputs[0].name = kEvil;
  const std::string html = Html(report);
  for (const char* part : {"<script", "</script", "<img", "<!--"}) {
    EXPECT_EQ(Count(html, part), Count(plain, part)) << part;
  }
  const Json data = DataOf(html);
  EXPECT_THAT(data["rows"].dump(), HasSubstr("<img src=x"));  // as it was, once it is read
  EXPECT_EQ(data["comparisons"]["rows"][0][0], kEvil);
  EXPECT_THAT(html, HasSubstr("<title>Quantization report: &lt;/script&gt;&lt;img src=x"));
}

TEST(HtmlWriter, ShowsTheChosenLayersAndGates) {
  WriteOptions options;
  options.selection.where.emplace_back("op=Conv");
  options.gates = {EvaluateGate(ParseGate("output_sqnr<20"), SampleReport())};
  const Json data = DataOf(Html(SampleReport(), options));
  EXPECT_EQ(data["rows"].size(), 1u);
  EXPECT_EQ(data["layers"], 3);
  EXPECT_EQ(data["gates"][0]["passed"], false);
  EXPECT_THAT(data["gates"][0]["message"].get<std::string>(), HasSubstr("conv1 (18.25)"));
}

TEST(HtmlWriter, ComparesFormatsInOneLinePerOperand) {
  Report report = SampleReport();
  report.comparisons = {{"a", "weight", "hif8", 31.5, 0.0, 0.0},
                        {"a", "weight", "mxfp4", 18.0, 0.1, 0.1},
                        {"a", "activation", "mxfp4", 17.0, 0.1, 0.1}};
  const Json comparisons = DataOf(Html(report))["comparisons"];
  EXPECT_EQ(comparisons["formats"], Json({"hif8", "mxfp4"}));
  ASSERT_EQ(comparisons["rows"].size(), 2u);
  EXPECT_EQ(comparisons["rows"][0][2], Json::parse("[[31.5,0.0],[18.0,0.1]]"));
  EXPECT_EQ(comparisons["rows"][1][2], Json::parse("[[],[17.0,0.1]]"));
}

// As many steps as a trace holds, in six digits.
DelayedTraceReport LargeTrace(const std::string& layer, std::mt19937_64* random) {
  DelayedTraceReport trace;
  trace.layers = {layer};
  trace.stride = 32;
  for (int64_t point = 0; point < 128; ++point) {
    trace.steps.push_back(32 * point + static_cast<int64_t>((*random)() % 32));
    for (auto member : {&DelayedTraceReport::amax, &DelayedTraceReport::most_recent,
                        &DelayedTraceReport::exp_smooth, &DelayedTraceReport::max}) {
      (trace.*member).push_back(static_cast<double>((*random)() % 900000 + 100000) / 1e5);
    }
  }
  return trace;
}

// 300 layers with everything that a run can measure, in numbers of full length.
Report LargeReport() {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> share(0, 1);
  const auto exponents = [&] {
    ExponentReport report;
    report.first = -25;
    for (int i = 0; i < 40; ++i) report.counts.push_back(static_cast<int64_t>(random() % 90000000));
    for (int bits = 4; bits > 0; --bits) report.bands.push_back({bits, share(random) / 5});
    report.below = report.above = share(random) / 9;
    return report;
  };
  const auto operand = [&](bool scaled) {
    OperandReport o;
    o.sqnr_db = 40 * share(random);
    for (auto member :
         {&OperandReport::zero_rate, &OperandReport::zeroed_rate, &OperandReport::saturation_rate,
          &OperandReport::exceeded_rate, &OperandReport::cosine, &OperandReport::max_abs_error,
          &OperandReport::amax, &OperandReport::scale}) {
      o.*member = share(random);
    }
    o.format = "hif8";
    if (scaled) o.exponents_before = exponents();
    if (scaled) o.exponents_after = exponents();
    return o;
  };
  Report report = SampleReport();
  report.layers.clear();
  report.kv_cache.clear();
  for (int i = 0; i < 300; ++i) {
    LayerReport layer;
    layer.name =
        "model.layers." + std::to_string(i / 7) + ".self_attn.projection_" + std::to_string(i);
    layer.op = "Linear";
    layer.quantized = true;
    layer.weight = operand(true);
    layer.activation = operand(true);
    layer.output = operand(false);
    layer.accumulated = operand(false);
    for (const char* format :
         {"hif8", "fp8_e4m3", "fp8_e5m2", "fp8_e4m3_block", "mxfp8", "mxfp4", "int8"}) {
      for (const char* name : {"weight", "activation"}) {
        report.comparisons.push_back(
            {layer.name, name, format, 40 * share(random), share(random), share(random)});
      }
    }
    for (const char* rule : {"most_recent", "exp_smooth", "max", "current"}) {
      report.delayed_study->rules.push_back(
          {layer.name, rule, 4096, 0, 4096000000, 2000, 50000, 1, 1, share(random),
           31 + share(random), 28 + share(random), 30 + share(random), 20 + share(random)});
    }
    if (i % 7 < 4) report.delayed_study->traces.push_back(LargeTrace(layer.name, &random));
    if (i % 7 == 0) report.kv_cache.push_back({layer.name + ".attn", operand(true), operand(true)});
    report.layers.push_back(layer);
  }
  return report;
}

TEST(HtmlWriter, TheStudyOfDelayedScalingIsCompact) {
  const Json study = DataOf(Html(SampleReport()))["delayed"];
  EXPECT_EQ(study["fields"][0], "rule");
  EXPECT_EQ(study["layers"][0][0], "conv1");
  EXPECT_EQ(study["layers"][0][1][0],
            Json::parse(R"(["max",8,1,700,1,3,0,0,"inf",31.5,28.25,31.25,null])"));
  EXPECT_EQ(study["traces"][0]["layers"], Json({"conv1", "head"}));
  EXPECT_EQ(study["traces"][0]["steps"], Json({1, 2}));
  EXPECT_EQ(study["traces"][0]["amax"], Json({0.5, nullptr}));
}

TEST(HtmlWriter, TracesOfManyLayersKeepTheirPeaks) {
  Report report = SampleReport();
  report.delayed_study->traces.clear();
  std::mt19937_64 random(2);
  for (int i = 0; i < 100; ++i) {  // 12,800 points
    report.delayed_study->traces.push_back(LargeTrace("layer" + std::to_string(i), &random));
  }
  const Json traces = DataOf(Html(report))["delayed"]["traces"];
  for (size_t t = 0; t < traces.size(); ++t) {
    const DelayedTraceReport& trace = report.delayed_study->traces[t];
    EXPECT_EQ(traces[t]["stride"], 64);
    ASSERT_EQ(traces[t]["amax"].size(), 64u);
    for (size_t i = 0; i < 64; ++i) {
      const size_t peak = *trace.amax[2 * i + 1] > *trace.amax[2 * i] ? 2 * i + 1 : 2 * i;
      EXPECT_EQ(traces[t]["amax"][i], *trace.amax[peak]);
      EXPECT_EQ(traces[t]["steps"][i], trace.steps[peak]);
      EXPECT_EQ(traces[t]["max"][i], *trace.max[peak]);
    }
  }
}

TEST(HtmlWriter, ThreeHundredLayersFitInTwoMegabytes) {
  const Report report = LargeReport();
  const std::string html = Html(report);
  EXPECT_LT(html.size(), 2000000u);
  EXPECT_GT(html.size(), 500000u);  // it is all there
  EXPECT_EQ(DataOf(html)["rows"].size(), 300u);
  EXPECT_EQ(html, Html(report));
}

}  // namespace
}  // namespace hif8
