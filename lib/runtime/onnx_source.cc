#include "lib/runtime/onnx_source.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "lib/core/error.h"
#include "lib/model/onnx/onnx_functions.h"
#include "lib/model/onnx/onnx_graphs.h"
#include "lib/runtime/passes.h"

namespace hif8 {
namespace {

// Networks that are measured side by side take about so much memory.
constexpr uint64_t kVariantBytes = uint64_t{1} << 29;

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
                        model_.activations().size(), "calibrate", log_, observer());
  }

  uint64_t samples() const override {
    return calibration_ == nullptr ? 0 : calibration_->samples();
  }
  bool synthetic() const override { return calibration_ != nullptr && calibration_->synthetic(); }

  Measurement Measure(const std::filesystem::path& written,
                      const std::map<int, QuantizedActivation>& quantized,
                      const LayerSet&) override {  // the written graph says which
    return MeasureGraphs(BuildEvaluationGraphs(model_, written), EvaluationData(),
                         {.activations = model_.activations().size(),
                          .layers = model_.layers().size(),
                          .quantized = quantized,
                          .operators = Operators(),
                          .stage = "measure"},
                         log_);
  }

  std::vector<Measurement> MeasureVariants(const std::filesystem::path& written,
                                           const std::map<int, QuantizedActivation>&,
                                           std::span<const LayerSet> variants,
                                           uint64_t samples) override {
    const auto model = OnnxModel::Load(written / "model.onnx", NullLog());
    uint64_t bytes = 1;
    for (const Weight& weight : model_.weights()) bytes += weight.size() * sizeof(float);
    VariantOptions options;
    options.samples = samples;
    options.operators = Operators();
    options.stage = "auto";
    options.at_once = std::clamp<size_t>(kVariantBytes / bytes, 1, 8);
    const LayerSet none(model_.layers().size(), false);
    return MeasureVariantGraphs(
        BuildPartlyQuantizedGraph(model_, *model, none), variants.size(),
        [&](size_t i) { return BuildPartlyQuantizedGraph(model_, *model, variants[i]); },
        EvaluationData(), options, log_);
  }

  std::optional<RunnableGraph> LayerGraph(int layer) const override {
    return BuildLayerGraph(model_, layer);
  }

 private:
  Dataset& EvaluationData() const {
    Dataset* data = evaluation_ != nullptr ? evaluation_.get() : calibration_.get();
    if (data == nullptr) {
      throw UsageError("measuring needs data, and none was given", "give --eval-data or --data");
    }
    return *data;
  }

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
