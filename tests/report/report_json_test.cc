// report.json: what is written, read back, refused, and that it keeps to the documented schema.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "lib/core/error.h"
#include "lib/report/report.h"
#include "tests/report/documents.h"
#include "tests/report/sample_report.h"

namespace hif8 {
namespace {

using ::testing::HasSubstr;
using testing::Json;
using testing::KeepsTo;
using testing::SampleReport;

TEST(ReportJson, WritesInfinityAsTextAndWhatWasNotMeasuredAsNull) {
  const Json j = Json::parse(ReportToJson(SampleReport()));
  EXPECT_EQ(j["schema"], "hif8.report/1");
  EXPECT_EQ(j["layers"][0]["weight"]["sqnr_db"], "inf");
  EXPECT_TRUE(j["layers"][0]["accumulated"]["sqnr_db"].is_null());
  EXPECT_TRUE(j["layers"][0]["activation"].is_null());
  EXPECT_EQ(j["layers"][1]["weight"]["sqnr_db"], 31.5);
  EXPECT_EQ(j["layers"][1]["weight"]["bytes_after"], 1100);
  EXPECT_EQ(j["layers"][1]["status"], "quantized");
  EXPECT_EQ(j["layers"][2]["status"], "kept");
  EXPECT_EQ(j["layers"][2]["reason"], "matches keep '^head'");
  EXPECT_EQ(j["network"]["perplexity"]["loss_gap_percent"], 1.64);
  EXPECT_EQ(j["run"]["durations"]["collect"], 1.5);
  EXPECT_EQ(j["run"]["evaluation"]["is_calibration_data"], true);
  EXPECT_EQ(j["layers"][1]["activation"]["scale"].dump(), "0.1");
}

TEST(ReportJson, ReadsBackWhatItWrote) {
  const std::string text = ReportToJson(SampleReport());
  EXPECT_EQ(ReportToJson(ReportFromJson(text, "r")), text);
  EXPECT_EQ(ReportFromJson(text, "r").layers[0].weight->sqnr_db,
            std::numeric_limits<double>::infinity());
  EXPECT_FALSE(ReportFromJson(text, "r").layers[2].weight.has_value());
}

TEST(ReportJson, NanIsNotMeasured) {
  EXPECT_FALSE(ToMeasured(std::nan("")).has_value());
  EXPECT_EQ(ToMeasured(2.5), 2.5);
  Report r = SampleReport();
  r.layers[1].weight->sqnr_db = std::nan("");
  EXPECT_TRUE(Json::parse(ReportToJson(r))["layers"][1]["weight"]["sqnr_db"].is_null());
}

TEST(ReportJson, MetricsFillAnOperand) {
  ErrorMetrics metrics;
  const std::vector<float> x = {3, 4, 0, 1};
  const std::vector<float> y = {3, 3, 0, 0};
  metrics.Add(x, y);
  OperandReport operand;
  operand.format = "kept as it is";
  SetMetrics(metrics, &operand);
  EXPECT_NEAR(*operand.sqnr_db, 10 * std::log10(26.0 / 2.0), 1e-12);
  EXPECT_EQ(operand.zero_rate, 0.5);
  EXPECT_EQ(operand.zeroed_rate, 0.25);
  EXPECT_EQ(operand.max_abs_error, 1);
  EXPECT_EQ(operand.amax, 4);
  EXPECT_NEAR(*operand.cosine, 21 / std::sqrt(26.0 * 18.0), 1e-12);
  EXPECT_EQ(operand.format, "kept as it is");
  OperandReport nothing;
  SetMetrics(ErrorMetrics(), &nothing);
  EXPECT_FALSE(nothing.sqnr_db || nothing.cosine || nothing.amax || nothing.zero_rate);
}

TEST(ReportJson, NamesThatAreNotUtf8AreRepaired) {
  Report r = SampleReport();
  r.layers[0].name = "a\xff";
  EXPECT_EQ(ReportFromJson(ReportToJson(r), "r").layers[0].name, "a\xEF\xBF\xBD");
}

// A change to the sample, where the error points, and what it says.
struct Damage {
  const char* pointer;
  const char* value;  // JSON; empty removes
  const char* where;
  const char* message;
};

const Damage kDamages[] = {
    {"/layers/1/weight/sqnr_db", "\"abc\"", "#/layers/1/weight/sqnr_db",
     "expected a number, \"inf\" or null, found \"abc\""},
    {"/layers/1/weight/zero_rate", "1.5", "#/layers/1/weight/zero_rate",
     "between 0 and 1, found 1.5"},
    {"/layers/1/weight/zero_rate", "-0.1", "#/layers/1/weight/zero_rate", "between 0 and 1"},
    {"/layers/1/weight/zero_rate", "\"inf\"", "#/layers/1/weight/zero_rate", "between 0 and 1"},
    {"/layers/1/output/cosine", "2", "#/layers/1/output/cosine", "between -1 and 1"},
    {"/layers/1/weight/bytes_after", "-1", "#/layers/1/weight/bytes_after", "a count, found -1"},
    {"/layers/1/weight/bytes_after", "1.5", "#/layers/1/weight/bytes_after", "a count"},
    {"/layers/1/weight/bytes_after", "18446744073709551615", "#/layers/1/weight/bytes_after",
     "a count"},
    {"/layers/1/weight", "[]", "#/layers/1/weight", "an object, found a list"},
    {"/layers/1/weight/notes", "[1]", "#/layers/1/weight/notes/0", "text, found 1"},
    {"/layers/1/status", "\"maybe\"", "#/layers/1/status", "\"quantized\" or \"kept\""},
    {"/layers/1/name", "", "#/layers/1", "the key 'name' is missing"},
    {"/layers/1/status", "", "#/layers/1", "the key 'status' is missing"},
    {"/layers/1", "3", "#/layers/1", "an object, found 3"},
    {"/layers", "{}", "#/layers", "a list, found an object"},
    {"/layers", "", "#", "the key 'layers' is missing"},
    {"/coverage/parameters", "97", "#/coverage/parameters", "between 0 and 1"},
    {"/network/outputs/0/argmax_agreement", "-1", "#/network/outputs/0/argmax_agreement", "share"},
    {"/run/synthetic", "1", "#/run/synthetic", "true or false"},
    {"/run/durations/collect", "\"x\"", "#/run/durations/collect", "a number"},
    {"/schema", "\"hif8.report/2\"", "#/schema", "schema hif8.report/1, found \"hif8.report/2\""},
    {"/schema", "", "", "there is no \"schema\""},
};

TEST(ReportJson, ErrorsPointToThePlace) {
  for (const Damage& damage : kDamages) {
    Json j = Json::parse(ReportToJson(SampleReport()));
    const Json::json_pointer pointer(damage.pointer);
    if (*damage.value != '\0') {
      j[pointer] = Json::parse(damage.value);
    } else {
      j[pointer.parent_pointer()].erase(pointer.back());
    }
    try {
      ReportFromJson(j.dump(), "r.json");
      ADD_FAILURE() << damage.pointer << " = " << damage.value;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kModel);
      EXPECT_EQ(error.where(), std::string("r.json") + damage.where);
      EXPECT_THAT(error.message(), HasSubstr(damage.message));
    }
  }
}

TEST(ReportJson, UnknownKeysAndMissingPartsAreNoErrors) {
  const Report r = ReportFromJson(
      R"({"schema": "hif8.report/1", "later": {"x": 1}, "layers": [{"name": "a", "status": "kept"}]})",
      "r");
  EXPECT_EQ(r.layers.at(0).name, "a");
  EXPECT_FALSE(r.coverage.parameters.has_value());
}

TEST(ReportJson, WhatIsNoReport) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      ReportFromJson(text, "r.json");
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_THAT(message(""), HasSubstr("not valid JSON at byte"));
  EXPECT_THAT(message(ReportToJson(SampleReport()).substr(0, 700)),
              HasSubstr("not valid JSON at byte"));
  EXPECT_THAT(message("[]"), HasSubstr("not a report"));
  EXPECT_THAT(message("{\"schema\": 1}"), HasSubstr("found 1"));
  EXPECT_THAT(message("{\"schema\": 1e999}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(message(std::string(100000, '[')), HasSubstr("not valid JSON"));
}

TEST(ReportJson, RandomDamageGivesAnErrorOrAReport) {
  std::mt19937 random(3);
  const std::string good = ReportToJson(SampleReport());
  int errors = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string text = good;
    for (unsigned edits = random() % 3 + 1; edits > 0; --edits) {
      const size_t at = random() % text.size();
      if (random() % 2 == 0) {
        text[at] = "{}[]\",:0e-\xff\\x"[random() % 13];
      } else {
        text.erase(at, random() % 20);
      }
    }
    try {
      const std::string again = ReportToJson(ReportFromJson(text, "r"));
      EXPECT_EQ(ReportToJson(ReportFromJson(again, "r")), again);
    } catch (const Error& error) {
      ++errors;
      EXPECT_EQ(error.code(), ErrorCode::kModel);
    }
  }
  EXPECT_GT(errors, 700);
}

TEST(ReportJson, AFolderOrAFile) {
  const std::filesystem::path dir = std::filesystem::path(::testing::TempDir()) / "report_folder";
  std::filesystem::create_directories(dir);
  std::filesystem::remove(dir / "report.json");
  EXPECT_THROW(ReadReport(dir), Error);
  std::ofstream(dir / "report.json") << ReportToJson(SampleReport());
  EXPECT_EQ(ReadReport(dir).layers.size(), 3u);
  EXPECT_EQ(ReadReport(dir / "report.json").layers.size(), 3u);
  EXPECT_THROW(ReadReport(dir / "other.json"), Error);
}

TEST(ReportJson, KeepsToTheSchema) {
  EXPECT_TRUE(KeepsTo("report", ReportToJson(SampleReport())));
  EXPECT_TRUE(KeepsTo("report", ReportToJson(Report())));
}

TEST(ReportJson, TheSchemaRefusesWhatTheReaderRefuses) {
  for (const char* pointer : {"/layers/1/weight/sqnr_db", "/layers/1/status", "/layers/1/name",
                              "/coverage/parameters", "/run/synthetic"}) {
    Json j = Json::parse(ReportToJson(SampleReport()));
    j[Json::json_pointer(pointer)] = Json::array();
    EXPECT_FALSE(KeepsTo("report", j.dump())) << pointer;
  }
  Json j = Json::parse(ReportToJson(SampleReport()));
  j["layers"][0]["wieght"] = nullptr;
  EXPECT_FALSE(KeepsTo("report", j.dump()));
}

}  // namespace
}  // namespace hif8
