// report.json, one or two of them: read back, written in every form, compared, and put to gates.
#include "lib/report/report.h"

#include "formats/builtin.h"
#include "lib/report/advice.h"
#include "lib/report/format_table.h"
#include "lib/report/gate.h"
#include "lib/report/writers.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

HIF8_FUZZ_FORM(kFiles)

namespace hif8 {
namespace {

void WriteAll(const Report& report, const WriteOptions& options) {
  for (const std::string& name : ReportWriters().names()) {
    ReportWriters().Get(name).Write(report, options);
  }
}

void Compare(const Report& report, const Report& baseline, const WriteOptions& options) {
  const RunComparison runs = CompareRuns(report, "a", baseline, "b");
  for (const std::string& name : ReportWriters().names()) {
    ReportWriters().Get(name).WriteComparison(runs, options);
  }
  EvaluateGate(ParseGate("regression(output_sqnr)>1", true), report, &baseline);
}

}  // namespace
}  // namespace hif8

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hif8;
  std::vector<Report> reports;
  for (const InputFile& file : SplitFiles(AsText(data, size))) {
    RunFuzzed([&] {
      Report report = ReportFromJson(file.bytes, file.name);
      const std::string written = ReportToJson(report);
      Require(ReportToJson(ReportFromJson(written, "again")) == written,
              "a report is read back as it was written");
      reports.push_back(std::move(report));
    });
  }
  for (const Report& report : reports) {
    WriteOptions options;
    options.width = 100;
    options.color = true;
    RunFuzzed([&] { options.gates.push_back(EvaluateGate(ParseGate("weight_sqnr<30"), report)); });
    RunFuzzed([&] { WriteAll(report, options); });
    RunFuzzed([&] { AdviceText(Advise(report, BuiltinFormats(), 5)); });
    RunFuzzed([&] { FormatTable(report, {}); });
    RunFuzzed([&] { Compare(report, reports[0], options); });
  }
  return 0;
}
