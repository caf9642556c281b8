#include "apps/hif8-calibrate/make_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hif8 {
namespace {

// What the plan says of an operand.
OperandReport Planned(const OperandPlan& plan) {
  OperandReport report;
  report.scale_rule = plan.rule->name();
  report.format = plan.format->name();
  report.granularity = NameOf(plan.config.granularity);
  // E8M0 scales follow from the format.
  if (plan.format->scale_encoding() != ScaleEncoding::kE8M0) report.target = plan.config.target;
  if (!plan.note.empty()) report.notes.push_back(plan.note);
  return report;
}

// The metrics, and a note of what they leave out.
void SetMeasured(const ErrorMetrics& error, OperandReport* report) {
  if (error.count() > 0) SetMetrics(error, report);
  if (error.non_finite() == 0) return;
  report->notes.push_back(std::to_string(error.non_finite()) + " of " +
                          std::to_string(error.count() + error.non_finite()) +
                          " values were not finite and are left out");
}

OperandReport WeightReport(const WeightPlan& plan, const WeightResult& result) {
  OperandReport report = Planned(plan);
  SetExponents(result.exponents, *plan.format, &report);
  SetMeasured(result.error, &report);
  if (result.scale > 0) report.scale = result.scale;
  if (!result.note.empty() && result.note != plan.note) report.notes.push_back(result.note);
  report.bytes_before = static_cast<int64_t>(result.bytes_before);
  report.bytes_after = static_cast<int64_t>(result.bytes_after);
  return report;
}

OperandReport ActivationReport(const OperandPlan& plan, const ActivationScale& scale,
                               const ErrorMetrics* error) {
  OperandReport report = Planned(plan);
  if (error != nullptr) SetMeasured(*error, &report);
  if (plan.HasStaticScale()) {
    report.scale = scale.choice.scale;
    report.target = scale.choice.target;
  }
  // The calibration's amax: what the scale was chosen from.
  if (plan.NeedsData()) report.amax = scale.choice.amax;
  report.scale_rule = scale.rule;
  if (!scale.choice.note.empty()) report.notes.push_back(scale.choice.note);
  report.samples = static_cast<int64_t>(scale.samples);
  return report;
}

// A measured tensor that has no scale of its own.
std::optional<OperandReport> MeasuredTensor(const std::vector<ErrorMetrics>& errors, size_t index) {
  if (index >= errors.size()) return std::nullopt;
  const ErrorMetrics& error = errors[index];
  if (error.count() + error.non_finite() == 0) return std::nullopt;
  OperandReport report;
  SetMeasured(error, &report);
  return report;
}

const ErrorMetrics* ErrorOf(const Measurement& measurement, int activation) {
  const size_t index = static_cast<size_t>(activation);
  return index < measurement.activation.size() ? &measurement.activation[index] : nullptr;
}

std::optional<OperandReport> ActivationOf(const PipelineResult& result, int activation) {
  const auto plan = result.plan.activations.find(activation);
  if (plan == result.plan.activations.end()) return std::nullopt;
  OperandReport report = ActivationReport(plan->second, result.activations.at(activation),
                                          ErrorOf(result.measurement, activation));
  const auto observed = result.exponents.find(activation);
  if (observed != result.exponents.end()) {
    SetExponents(observed->second, *plan->second.format, &report);
  }
  return report;
}

LayerReport LayerOf(const Model& model, const PipelineResult& result, size_t index) {
  const Layer& layer = model.layers()[index];
  const LayerPlan& plan = result.plan.layers[index];
  LayerReport report;
  report.name = layer.name;
  report.op = layer.op;
  report.quantized = plan.quantized;
  report.reason = plan.reason;
  if (plan.quantized) {
    report.weight_only = result.plan.IsWeightOnly(model, index);
    const auto weight = result.weights.find(layer.weight);
    if (weight != result.weights.end()) {
      report.weight = WeightReport(result.plan.weights.at(layer.weight), weight->second);
    }
    report.activation = ActivationOf(result, layer.activation);
    report.output = MeasuredTensor(result.measurement.output, index);
  }
  report.accumulated = MeasuredTensor(result.measurement.accumulated, index);
  return report;
}

// K and V of one attention layer stand in the report as one entry. Their layers are named
// "<attention>.k" and "<attention>.v"; with a number behind it where each head has an entry. What
// latent attention keeps belongs to both: each tensor has an entry of its own.
void AddCache(const Layer& layer, const PipelineResult& result, Report* report) {
  const std::string& whole = layer.fused.empty() ? layer.name : layer.fused;
  const std::string head = layer.name.substr(whole.size());
  const std::string attention = whole.substr(0, whole.rfind('.'));
  const std::string tensor = whole.substr(attention.size() + 1);
  const std::string name = tensor.size() == 1 ? attention + head : layer.name;
  auto entry = std::find_if(report->kv_cache.begin(), report->kv_cache.end(),
                            [&](const KvCacheReport& known) { return known.name == name; });
  if (entry == report->kv_cache.end()) {
    entry = report->kv_cache.insert(entry, {name, std::nullopt, std::nullopt});
  }
  (tensor.starts_with("k") ? entry->k : entry->v) = ActivationOf(result, layer.activation);
}

Measured ArgmaxAgreement(const OutputMeasurement& output) {
  if (output.argmax_rows == 0) return std::nullopt;
  return static_cast<double>(output.argmax_equal) / static_cast<double>(output.argmax_rows);
}

// The formats of a plan's operands, by name.
std::vector<FormatReport> FormatsOf(const QuantPlan& plan) {
  std::map<std::string, const NumberFormat*> formats;
  for (const auto& [index, weight] : plan.weights) {
    formats.emplace(weight.format->name(), weight.format);
  }
  for (const auto& [index, operand] : plan.activations) {
    formats.emplace(operand.format->name(), operand.format);
  }
  std::vector<FormatReport> reports;
  reports.reserve(formats.size());
  for (const auto& [name, format] : formats) reports.push_back(ReportFormat(*format));
  return reports;
}

}  // namespace

NetworkReport MakeNetworkReport(const Measurement& measurement) {
  NetworkReport network;
  for (const OutputMeasurement& output : measurement.outputs) {
    network.outputs.push_back({output.name, ToMeasured(output.error.SqnrDb()),
                               ToMeasured(output.error.Cosine()), ArgmaxAgreement(output)});
  }
  if (measurement.perplexity_original > 0) {
    PerplexityReport perplexity;
    perplexity.original = measurement.perplexity_original;
    perplexity.quantized = measurement.perplexity_quantized;
    const double before = std::log(measurement.perplexity_original);
    const double after = std::log(measurement.perplexity_quantized);
    if (before > 0) perplexity.loss_gap_percent = 100 * (after - before) / before;
    network.perplexity = perplexity;
  }
  return network;
}

Report MakeReport(const Model& model, const PipelineResult& result) {
  Report report;
  report.model.path = model.path().filename().string();
  report.model.kind = model.kind();
  report.model.fingerprint = result.fingerprint.hash;
  report.model.bytes_before = static_cast<int64_t>(result.fingerprint.file_bytes);
  report.model.bytes_after = static_cast<int64_t>(result.bytes_after);
  for (size_t i = 0; i < model.layers().size(); ++i) {
    const Layer& layer = model.layers()[i];
    if (layer.option != "kv_cache") {
      report.layers.push_back(LayerOf(model, result, i));
    } else if (result.plan.layers[i].quantized) {
      AddCache(layer, result, &report);
    }
  }
  for (const ComparedOperand& compared : result.comparisons) {
    report.comparisons.push_back(
        {compared.layer, compared.operand, compared.format, ToMeasured(compared.error.SqnrDb()),
         ToMeasured(compared.error.ZeroRate()), ToMeasured(compared.error.ZeroedRate())});
  }
  report.formats = FormatsOf(result.plan);
  report.network = MakeNetworkReport(result.measurement);
  report.coverage = {result.coverage.parameters, ToMeasured(result.coverage.macs)};
  return report;
}

}  // namespace hif8
