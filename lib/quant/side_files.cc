#include "lib/quant/side_files.h"

#include <map>
#include <string>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/input_file.h"
#include "lib/core/output_dir.h"

namespace hif8 {
namespace {

CalibratedLayer MakeEntry(const Model& model, const Layer& layer, const PipelineResult& result) {
  CalibratedLayer entry;
  entry.layer = layer.name;
  if (layer.weight >= 0) {
    entry.weight = model.weights()[static_cast<size_t>(layer.weight)].name;
    entry.weight_rule = std::string(result.plan.weights.at(layer.weight).rule->name());
    const auto written = result.weights.find(layer.weight);
    if (written != result.weights.end()) entry.weight_hash = written->second.scales_hash;
  }
  for (const int index : {layer.activation, layer.second_activation}) {
    const OperandPlan* const read = result.plan.FindActivation(index);
    if (read == nullptr || !read->HasStaticScale()) continue;
    entry.inputs.emplace_back(model.activations()[static_cast<size_t>(index)].name,
                              result.activations.at(index));
  }
  return entry;
}

}  // namespace

void WriteSideFiles(const Model& model, const PipelineResult& result,
                    const std::filesystem::path& dir) {
  WriteFile(dir / OutputDir::kRecipe, WriteRecipe(result.config));
  Calibration calibration;
  calibration.model = result.fingerprint;
  calibration.samples = result.calibration_samples;
  calibration.synthetic = result.synthetic;
  calibration.unobserved = result.unobserved;
  for (size_t i = 0; i < result.plan.layers.size(); ++i) {
    if (!result.plan.layers[i].quantized) continue;
    calibration.layers.push_back(MakeEntry(model, model.layers()[i], result));
  }
  WriteFile(dir / OutputDir::kCalibration, FormatCalibration(calibration));
  if (result.delayed_study == nullptr) return;
  WriteFile(dir / "delayed_state.yaml", result.delayed_study->State(model, result.fingerprint));
}

void TakeScalesFrom(const std::filesystem::path& file, const Model& model,
                    const ParseContext& context, PipelineResult* result) {
  const Calibration calibration = ParseCalibration(ReadFile(file), file.string());
  if (!(calibration.model == result->fingerprint)) {
    throw UsageError("the calibration is of another model: " + calibration.model.files + " (" +
                         calibration.model.hash + "), found " + result->fingerprint.files + " (" +
                         result->fingerprint.hash + ")",
                     "calibrate this model with --data", file.string());
  }
  const std::map<std::string, ActivationScale> scales = calibration.ActivationScales();
  result->unobserved = calibration.unobserved;
  KeepLayers(model, calibration.unobserved, "its input had no statistics when calibrated",
             &result->plan);
  const auto observed = [&](int activation) {
    const auto at = scales.find(model.activations()[static_cast<size_t>(activation)].name);
    if (at == scales.end()) return true;
    const Calibrator* rule = context.rules.Find(at->second.rule);
    return rule == nullptr || rule->traits().needs_data;
  };
  ConvertUnreached(model, result->config, context, observed, &result->plan);
  for (const auto& [index, operand] : result->plan.activations) {
    const std::string& name = model.activations()[static_cast<size_t>(index)].name;
    if (!operand.HasStaticScale()) {
      result->activations[index].rule = operand.rule->name();
      continue;
    }
    const auto at = scales.find(name);
    if (at == scales.end()) {
      throw UsageError("the calibration has no scale for tensor '" + name + "'",
                       "calibrate again with --data, or keep the layers that read it",
                       file.string());
    }
    result->activations[index] = at->second;
  }
  result->calibration_samples = calibration.samples;
  result->synthetic = calibration.synthetic;
}

}  // namespace hif8
