// What each writer makes of the same report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lib/core/error.h"
#include "lib/report/text_util.h"
#include "lib/report/writer.h"
#include "tests/report/sample_report.h"

namespace hif8 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::SampleReport;

std::string Write(const std::string& form, const WriteOptions& options = {},
                  const Report& report = SampleReport()) {
  return ReportWriters().Get(form).Write(report, options);
}

std::vector<std::string> Lines(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

WriteOptions WithGates(const std::vector<std::string>& gates) {
  WriteOptions options;
  for (const std::string& gate : gates) {
    options.gates.push_back(EvaluateGate(ParseGate(gate), SampleReport()));
  }
  return options;
}

// Runs Python over the text; its exit code.
int Python(const std::string& program, const std::string& text) {
  const std::string path = ::testing::TempDir() + "writer_output" + std::to_string(::getpid());
  std::ofstream(path, std::ios::binary) << text;
  std::ofstream(path + ".py") << "import sys\npath = sys.argv[1]\n" << program;
  return std::system(("python3 " + path + ".py " + path).c_str());
}

TEST(Writers, AreRegistered) {
  EXPECT_THAT(ReportWriters().names(),
              ElementsAre("text", "json", "csv", "markdown", "junit", "html"));
  EXPECT_THROW(ReportWriters().Get("htm"), Error);
}

// clang-format off
const char kHead[] =
    "layer                           op      output dB  accumulated dB  weight dB  activation dB  activation exceeded              reason";
const char kConv[] =
    "conv1                           Conv        18.25           17.12      31.50          33.00               12.5 %  ████▋       -";
const char kMatMul[] =
    "model.layers.0.mlp,\"down\"|proj  MatMul      27.12               -        inf              -                    -  ██████▊     -";
const char kGemm[] =
    "head                            Gemm            -               -          -              -                    -              matches keep '^head'";
// clang-format on

TEST(TextWriter, AlignedWorstFirst) {
  const std::vector<std::string> lines = Lines(Write("text"));
  EXPECT_EQ(lines[0], kHead);
  EXPECT_EQ(lines[1], kConv);
  EXPECT_EQ(lines[2], kMatMul);
  EXPECT_EQ(lines[3], kGemm);
  EXPECT_EQ(lines[4], "");
  EXPECT_THAT(lines, ::testing::IsSupersetOf(
                         {("2 of 3 layers and 2 caches quantized; 97 % of parameters, 99.1 % of "
                           "multiply-adds; 8.1 MB -> 2.1 MB"),
                          "network output out: 14.20 dB, cosine 0.98, argmax agreement 99.1 %",
                          "perplexity 12 -> 12.5, loss gap 1.64 %",
                          "measured on calib/ (8 samples), the data that the scales were chosen on",
                          "warning: one layer was never reached"}));
}

TEST(TextWriter, FitsTheTerminal) {
  Report report = SampleReport();
  report.layers[0].name = "model.decoder.block.11.attention.self.query_key_value_projection.MatMul";
  for (size_t width = 40; width < 160; width += 3) {
    WriteOptions options;
    options.width = width;
    const std::vector<std::string> lines = Lines(Write("text", options, report));
    for (size_t i = 0; i < 4; ++i) EXPECT_LE(DisplayWidth(lines[i]), std::max<size_t>(width, 43));
    EXPECT_THAT(lines[2], HasSubstr("MatMul"));
  }
  WriteOptions options;
  options.width = 80;
  EXPECT_THAT(Write("text", options, report), HasSubstr("model.dec…jection.MatMul"));
  options.unicode = false;
  EXPECT_THAT(Write("text", options, report), HasSubstr("model.dec~jection.MatMul"));
  EXPECT_THAT(Write("text", options, report), HasSubstr("#####"));
}

TEST(TextWriter, ColourOnlyRepeats) {
  WriteOptions options;
  options.color = true;
  std::string colored = Write("text", options);
  EXPECT_THAT(colored, HasSubstr("\033[33m"));
  for (size_t at; (at = colored.find('\033')) != std::string::npos;) {
    colored.erase(at, colored.find('m', at) + 1 - at);
  }
  EXPECT_EQ(colored, Write("text"));
  EXPECT_THAT(Write("text"), Not(HasSubstr("\033")));
}

TEST(TextWriter, ChosenColumnsAndLayers) {
  WriteOptions options;
  options.columns = ParseColumns("layer,weight_format,samples");
  options.selection.where.emplace_back("op=Conv");
  const std::vector<std::string> lines = Lines(Write("text", options));
  EXPECT_EQ(lines[0], "layer  weight format  activation samples");
  EXPECT_EQ(lines[1], "conv1  hif8                            8");
  options.selection.where.emplace_back("op=Gemm");
  EXPECT_EQ(Lines(Write("text", options))[1], "(no layer)");
}

TEST(TextWriter, NamesCannotMoveTheCursor) {
  Report report = SampleReport();
  report.layers[1].name = "a\033[2Jb\n\xff\xc2\x9b";
  const std::string text = Write("text", {}, report);
  EXPECT_THAT(text, HasSubstr("a\\u001b[2Jb\\u000a\xEF\xBF\xBD\\u009b"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
}

TEST(TextWriter, GatesAreToldAtTheEnd) {
  const std::vector<std::string> lines =
      Lines(Write("text", WithGates({"output_sqnr<20", "output_sqnr<10"})));
  EXPECT_EQ(lines[lines.size() - 2], "gate output_sqnr<20 failed for 1 of 2");
  EXPECT_EQ(lines.back(), "gate output_sqnr<10 passed for 2");
}

TEST(JsonWriter, HoldsTheChosenLayers) {
  EXPECT_EQ(Write("json"), ReportToJson(SampleReport()));
  WriteOptions options;
  ParseSort("output_sqnr", &options.selection);
  options.selection.top = 1;
  const auto j = nlohmann::json::parse(Write("json", options));
  ASSERT_EQ(j["layers"].size(), 1u);
  EXPECT_EQ(j["layers"][0]["name"], "conv1");
}

TEST(CsvWriter, IsReadByPythonsCsvModule) {
  EXPECT_EQ(Python(R"(
import csv
rows = list(csv.DictReader(open(path, newline='')))
assert [r['layer'] for r in rows] == ['model.layers.0.mlp,"down"|proj', 'conv1', 'head'], rows
assert rows[0]['weight_sqnr'] == 'inf' and rows[0]['accumulated_sqnr'] == ''
assert float(rows[1]['activation_scale']) == 0.1 and rows[1]['weight_bytes_before'] == '4000'
assert rows[2]['status'] == 'kept' and rows[2]['output_sqnr'] == ''
assert rows[1]['notes'] == 'per tensor: "no" channel axis; second'
)",
                   Write("csv")),
            0);
}

TEST(CsvWriter, NamesAreNoFormulas) {
  Report report = SampleReport();
  report.layers.resize(3);
  report.layers[0].name = "=HYPERLINK(\"http://x\",\"y\")";
  report.layers[1].name = "@SUM(A1)";
  report.layers[2].name = "-1+1";
  WriteOptions options;
  options.columns = ParseColumns("layer");
  EXPECT_EQ(Write("csv", options, report),
            "layer\r\n\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\"\r\n'@SUM(A1)\r\n'-1+1\r\n");
}

TEST(Writers, InvisibleCharactersAreShownEscaped) {
  Report report = SampleReport();
  // Right-to-left override, escape, zero-width space, a C1 control, a tag beyond the first plane.
  report.layers[0].name =
      "a\xE2\x80\xAE"
      "b\x1B"
      "c\xE2\x80\x8B"
      "d\xC2\x9B"
      "e\xF3\xA0\x80\x81"
      "f";
  for (const char* form : {"text", "csv", "markdown", "junit", "html", "json"}) {
    const std::string text = Write(form, {}, report);
    for (const char* raw :
         {"\xE2\x80\xAE", "\x1B", "\xE2\x80\x8B", "\xC2\x9B", "\xF3\xA0\x80\x81"}) {
      EXPECT_EQ(text.find(raw), std::string::npos) << form;
    }
  }
  EXPECT_EQ(CleanText(report.layers[0].name), "a\\u202eb\\u001bc\\u200bd\\u009be\\U000e0001f");
  const auto json = nlohmann::json::parse(Write("json", {}, report));
  EXPECT_EQ(json["layers"][0]["name"], report.layers[0].name) << "JSON's escapes keep the name";
}

TEST(CsvWriter, ChosenColumns) {
  WriteOptions options;
  options.columns = ParseColumns("op,output");
  EXPECT_EQ(Write("csv", options), "op,output_sqnr\r\nMatMul,27.123\r\nConv,18.25\r\nGemm,\r\n");
}

TEST(MarkdownWriter, ATableWithEscapedNames) {
  WriteOptions options = WithGates({"output_sqnr<20", "coverage<0.5"});
  options.columns = ParseColumns("layer,output,weight_zero_rate");
  const std::vector<std::string> lines = Lines(Write("markdown", options));
  EXPECT_EQ(lines[0], "## Quantization report");
  EXPECT_THAT(lines, ::testing::IsSupersetOf(
                         {"* **failed**: gate output\\_sqnr\\<20 failed for 1 of 2: conv1 (18.25)",
                          "* passed: gate coverage\\<0.5 passed for 1",
                          "| layer | output dB | weight zero |", "| --- | ---: | ---: |",
                          "| conv1 | 18.25 | 0.01 % |",
                          "| model.layers.0.mlp,\"down\"\\|proj | 27.12 | - |"}));
}

TEST(JunitWriter, ASuiteForEveryGate) {
  const std::string xml =
      Write("junit", WithGates({"output_sqnr<20", "accumulated_sqnr<1", "coverage<0.5"}));
  EXPECT_EQ(Python(R"(
import xml.etree.ElementTree as tree
root = tree.parse(path).getroot()
assert root.tag == 'testsuites' and root.get('failures') == '1' and root.get('errors') == '1'
suites = {s.get('name'): s for s in root}
s = suites['output_sqnr<20']
assert (s.get('tests'), s.get('failures'), s.get('errors')) == ('2', '1', '0')
cases = {c.get('name'): c for c in s}
assert cases['conv1'].find('failure').get('message') == 'output_sqnr is 18.25, and output_sqnr<20 must not hold'
assert len(cases['model.layers.0.mlp,"down"|proj']) == 0
assert suites['accumulated_sqnr<1'].get('errors') == '1'
assert suites['coverage<0.5'].get('failures') == '0'
assert root.get('tests') == str(sum(len(s) for s in root))
)",
                   xml),
            0);
}

TEST(JunitWriter, LayersWithoutGates) {
  Report report = SampleReport();
  report.layers[2].reason = "a <b> & \x01 \"c\"";
  EXPECT_EQ(Python(R"(
import xml.etree.ElementTree as tree
root = tree.parse(path).getroot()
cases = {c.get('name'): c for c in root[0]}
assert cases['conv1'].find('system-out').text == 'SQNR 18.25 dB'
assert cases['head'].find('skipped').get('message') == 'a <b> & \\u0001 "c"'
assert root.get('tests') == '3' and root.get('failures') == '0'
)",
                   Write("junit", {}, report)),
            0);
}

TEST(Writers, AnEmptyReport) {
  for (const std::string& form : ReportWriters().names()) {
    EXPECT_FALSE(Write(form, {}, Report()).empty()) << form;
  }
  EXPECT_THAT(Write("text", {}, Report()), HasSubstr("0 of 0 layers quantized; - of parameters"));
}

TEST(TextUtil, Numbers) {
  EXPECT_EQ(PercentText(0.99996), "99.996 %");
  EXPECT_EQ(PercentText(0.9999999), "100 %");
  EXPECT_EQ(PercentText(1), "100 %");
  EXPECT_EQ(PercentText(0), "0 %");
  EXPECT_EQ(PercentText(0.000123), "0.0123 %");
  EXPECT_EQ(DecibelText({}), "-");
  EXPECT_EQ(DecibelText(-3.0), "-3.00");
  EXPECT_EQ(BytesText(999), "999 B");
  EXPECT_EQ(BytesText(1234567), "1.23 MB");
  EXPECT_EQ(ExactText(0.1), "0.1");
  EXPECT_EQ(ExactText(1.0 / 3), "0.3333333333333333");
}

TEST(TextUtil, ShortensInTheMiddleAtCodePoints) {
  EXPECT_EQ(ShortenMiddle("abcdef", 6, true), "abcdef");
  EXPECT_EQ(ShortenMiddle("abcdefghij", 6, true), "ab…hij");
  EXPECT_EQ(ShortenMiddle("äöüäöüäöü", 5, false), "ä~äöü");
  for (size_t width = 3; width < 12; ++width) {
    EXPECT_EQ(DisplayWidth(ShortenMiddle("äöüäöüäöüäöüäöü", width, true)), width);
  }
}

}  // namespace
}  // namespace hif8
