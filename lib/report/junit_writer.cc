#include "lib/report/comparison_table.h"
#include "lib/report/summary.h"
#include "lib/report/text_util.h"
#include "lib/report/writers.h"

namespace hif8 {
namespace {

std::string Escaped(const std::string& text) { return EscapeMarkup(CleanText(text)); }

struct Suite {
  std::string name;
  std::string cases;
  size_t tests = 0, failures = 0, errors = 0;

  // `inside`: the elements of the test case, or empty when it passed.
  void Add(const std::string& test, const std::string& inside) {
    ++tests;
    cases += "    <testcase classname=\"" + Escaped(name) + "\" name=\"" + Escaped(test) + "\"" +
             (inside.empty() ? "/>\n" : ">" + inside + "</testcase>\n");
  }
  std::string Counts() const {
    return " tests=\"" + std::to_string(tests) + "\" failures=\"" + std::to_string(failures) +
           "\" errors=\"" + std::to_string(errors) + "\"";
  }
};

// A gate is a suite, everything it was held against a test.
Suite GateSuite(const GateResult& result) {
  Suite suite;
  suite.name = result.gate.text;
  for (const GateItem& item : result.items) {
    if (!item.value) continue;
    if (!item.failed) {
      suite.Add(item.name, "");
      continue;
    }
    ++suite.failures;
    suite.Add(item.name, "<failure message=\"" +
                             Escaped(result.gate.metric + " is " + result.ValueText(item) +
                                     ", and " + result.gate.text + " must not hold") +
                             "\"/>");
  }
  if (!result.error.empty()) {
    ++suite.errors;
    suite.Add("measured", "<error message=\"" + Escaped(result.Message()) + "\"/>");
  }
  return suite;
}

// Without gates there is nothing to fail: every layer is a test that tells its SQNR.
Suite LayerSuite(const Report& report, const WriteOptions& options) {
  Suite suite;
  suite.name = "layers";
  for (const LayerReport* layer : UsualLayers(report, options)) {
    suite.Add(layer->name, layer->quantized
                               ? "<system-out>" +
                                     Escaped("SQNR " + DecibelText(MainSqnr(*layer)) + " dB") +
                                     "</system-out>"
                               : "<skipped message=\"" + Escaped(layer->reason) + "\"/>");
  }
  return suite;
}

Suite ComparedLayerSuite(const RunComparison& runs, const WriteOptions& options) {
  Suite suite;
  suite.name = "layers";
  for (const ComparedLayer& layer : UsualComparedLayers(runs, options)) {
    suite.Add(layer.current->name,
              "<system-out>" +
                  Escaped("SQNR " + DecibelText(MainSqnr(*layer.current)) + " dB after " +
                          DecibelText(MainSqnr(*layer.baseline)) + " dB") +
                  "</system-out>");
  }
  return suite;
}

// What has no partner was not compared: skipped.
Suite UnmatchedSuite(const RunComparison& runs) {
  Suite suite;
  suite.name = "in one run only";
  for (const Unmatched& item : runs.unmatched) {
    suite.Add(item.kind + " " + item.name,
              "<skipped message=\"" +
                  Escaped("only in " + (item.in_current ? runs.current_name : runs.baseline_name)) +
                  "\"/>");
  }
  return suite;
}

std::string Document(const std::vector<Suite>& suites) {
  Suite all;
  std::string body;
  for (const Suite& suite : suites) {
    all.tests += suite.tests;
    all.failures += suite.failures;
    all.errors += suite.errors;
    body += "  <testsuite name=\"" + Escaped(suite.name) + "\"" + suite.Counts() + ">\n" +
            suite.cases + "  </testsuite>\n";
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"quantization\"" +
         all.Counts() + ">\n" + body + "</testsuites>\n";
}

class JunitWriter : public ReportWriter {
 public:
  std::string_view name() const override { return "junit"; }
  std::string_view description() const override {
    return "JUnit XML for CI systems: one suite per gate";
  }
  std::string Write(const Report& report, const WriteOptions& options) const override {
    std::vector<Suite> suites;
    for (const GateResult& gate : options.gates) suites.push_back(GateSuite(gate));
    if (suites.empty()) suites.push_back(LayerSuite(report, options));
    return Document(suites);
  }
  std::string WriteComparison(const RunComparison& runs,
                              const WriteOptions& options) const override {
    std::vector<Suite> suites;
    for (const GateResult& gate : options.gates) suites.push_back(GateSuite(gate));
    if (suites.empty()) suites.push_back(ComparedLayerSuite(runs, options));
    if (!runs.unmatched.empty()) suites.push_back(UnmatchedSuite(runs));
    return Document(suites);
  }
};

}  // namespace

std::shared_ptr<const ReportWriter> MakeJunitWriter() { return std::make_shared<JunitWriter>(); }

}  // namespace hif8
