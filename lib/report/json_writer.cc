#include "lib/report/writers.h"

namespace hif8 {
namespace {

class JsonWriter : public ReportWriter {
 public:
  std::string_view name() const override { return "json"; }
  std::string_view description() const override {
    return "the report itself, with the chosen layers";
  }
  std::string Write(const Report& report, const WriteOptions& options) const override {
    Report chosen = report;
    chosen.layers.clear();
    for (const LayerReport* layer : SelectLayers(report.layers, options.selection)) {
      chosen.layers.push_back(*layer);
    }
    return ReportToJson(chosen);
  }
  std::string WriteComparison(const RunComparison& runs,
                              const WriteOptions& /*options*/) const override {
    return ComparisonToJson(runs);
  }
};

}  // namespace

std::shared_ptr<const ReportWriter> MakeJsonWriter() { return std::make_shared<JsonWriter>(); }

}  // namespace hif8
