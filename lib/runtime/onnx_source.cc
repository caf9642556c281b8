#include "lib/runtime/onnx_source.h"

#include <string>
#include <utility>
#include <vector>

#include "lib/core/error.h"
#include "lib/model/onnx/onnx_functions.h"
#include "lib/model/onnx/onnx_graphs.h"
#include "lib/runtime/passes.h"

namespace hif8 {
namespace {

class OnnxSource : public ActivationSource {
 public:
  OnnxSource(const OnnxModel& model, const OnnxSourceOptions& options, LogSink& log)
      : model_(model), formats_(options.formats), log_(log) {
    const auto open = [&](const DataOptions& data) -> std::unique_ptr<Dataset> {
      return data.source.empty() ? nullptr : OpenDataset(data, model_.inputs(), log_);
    };
    calibration_ = open(options.calibration);
    evaluation_ = open(options.evaluation);
  }

  std::vector<TensorStats> Collect(std::span<const int> wanted) override {
    if (calibration_ == nullptr) {
      throw UsageError("static activation scales need calibration data, and none was given",
                       "give --data; --eval-data is used for measuring only");
    }
    return CollectStats(BuildObservedGraph(model_, wanted), *calibration_,
                        model_.activations().size(), "calibrate", log_);
  }

  uint64_t samples() const override {
    return calibration_ == nullptr ? 0 : calibration_->samples();
  }
  bool synthetic() const override { return calibration_ != nullptr && calibration_->synthetic(); }

  Measurement Measure(const std::filesystem::path& written,
                      const std::map<int, QuantizedActivation>& quantized) override {
    Dataset* data = evaluation_ != nullptr ? evaluation_.get() : calibration_.get();
    if (data == nullptr) {
      throw UsageError("measuring needs data, and none was given", "give --eval-data or --data");
    }
    return MeasureGraphs(BuildEvaluationGraphs(model_, written), *data,
                         {.activations = model_.activations().size(),
                          .layers = model_.layers().size(),
                          .quantized = quantized,
                          .operators = Operators(),
                          .stage = "measure"},
                         log_);
  }

 private:
  std::vector<NativeOperator> Operators() const {
    std::vector<NativeOperator> operators;
    if (formats_ == nullptr) return operators;
    for (const std::string& name : formats_->names()) {
      operators.push_back(
          {FunctionDomain(name), std::string(kQuantizeDequantizeFunction), &formats_->Get(name)});
    }
    return operators;
  }

  const OnnxModel& model_;
  const FormatRegistry* formats_;
  LogSink& log_;
  std::unique_ptr<Dataset> calibration_;
  std::unique_ptr<Dataset> evaluation_;
};

}  // namespace

std::unique_ptr<ActivationSource> MakeOnnxSource(const OnnxModel& model,
                                                 const OnnxSourceOptions& options, LogSink& log) {
  return std::make_unique<OnnxSource>(model, options, log);
}

}  // namespace hif8
