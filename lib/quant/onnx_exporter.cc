#include "lib/quant/onnx_exporter.h"

#include <utility>

#include "lib/model/onnx/onnx_writer.h"

namespace hif8 {
namespace {

class Written : public WrittenWeights {
 public:
  Written(const OnnxModel& model, const FormatRegistry& formats, const std::filesystem::path& dir)
      : model_(model), artifact_(OnnxArtifact::Open(dir, formats)) {}

  WrittenWeight Read(int weight) const override {
    return WrittenWeight(artifact_->ReadCodes(model_.weights()[static_cast<size_t>(weight)].name));
  }

 private:
  const OnnxModel& model_;
  std::unique_ptr<OnnxArtifact> artifact_;
};

}  // namespace

uint64_t OnnxExporter::Write(const ExportRequest& request, const std::filesystem::path& dir,
                             LogSink& log) const {
  OnnxWritePlan plan;
  for (const LayerPlan& layer : request.plan.layers) plan.quantized.push_back(layer.quantized);
  plan.activations = request.activations;
  plan.encode = request.encode;
  plan.simulated = request.simulated;
  plan.inlined = request.inlined;
  const uint64_t bytes = WriteOnnxModel(model_, plan, formats_, dir, log).bytes;
  if (request.finished) {
    std::vector<int> weights;
    for (const auto& [index, how] : request.plan.weights) weights.push_back(index);
    request.finished(std::make_shared<const Written>(model_, formats_, dir), std::move(weights));
  }
  return bytes;
}

}  // namespace hif8
