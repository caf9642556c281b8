#include "lib/quant/delayed_study.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "lib/core/number_text.h"
#include "lib/numeric/error_metrics.h"

namespace hif8 {
namespace {

// What one estimate makes of one step.
struct StepOutcome {
  uint64_t exceeded = 0;
  uint64_t overflowed = 0;
  double plain_db = 0;
  double clipped_db = 0;
};

double Sqnr(std::span<const float> x, std::span<const float> y) {
  ErrorMetrics error;
  error.Add(x, y);
  return error.SqnrDb();
}

StepOutcome Try(const OperandPlan& operand, std::span<const float> x, float amax, double estimate,
                std::vector<float>* rounded) {
  const NumberFormat& format = *operand.format;
  const auto reference = static_cast<float>(estimate);
  const float target = ResolveTarget(format, operand.params);
  const float scale = ScaleFromReference(reference, reference, target, operand.params);
  StepOutcome outcome;
  if (amax > estimate) {
    for (const float v : x) outcome.exceeded += std::fabs(v) > estimate ? 1 : 0;
  }
  if (amax / scale >= format.OverflowThreshold()) {
    for (const float v : x) {
      outcome.overflowed += std::fabs(v) / scale >= format.OverflowThreshold() ? 1 : 0;
    }
  }
  rounded->resize(x.size());
  format.QuantizeDequantize(x, ScaleOperand::One(scale), *rounded);
  outcome.plain_db = Sqnr(x, *rounded);
  outcome.clipped_db = outcome.plain_db;
  if (outcome.exceeded > 0) {
    std::transform(x.begin(), x.end(), rounded->begin(),
                   [&](float v) { return std::clamp(v, -reference, reference); });
    format.QuantizeDequantize(*rounded, ScaleOperand::One(scale), *rounded);
    outcome.clipped_db = Sqnr(x, *rounded);
  }
  return outcome;
}

void Count(const StepOutcome& step, size_t elements, float amax, double estimate,
           DelayedOutcome* outcome) {
  outcome->elements += elements;
  outcome->exceeded_elements += step.exceeded;
  outcome->exceeded_steps += step.exceeded > 0 ? 1 : 0;
  outcome->overflowed_elements += step.overflowed;
  outcome->overflowed_steps += step.overflowed > 0 ? 1 : 0;
  if (step.exceeded > 0) {
    outcome->overshoot = std::max(outcome->overshoot, std::log2(amax / estimate));
  }
  outcome->plain.Add(step.plain_db);
  outcome->clipped.Add(step.clipped_db);
}

}  // namespace

void StepSqnr::Add(double sqnr_db) {
  if (std::isnan(sqnr_db)) return;  // all zero: there is no ratio
  worst = steps == 0 ? sqnr_db : std::min(worst, sqnr_db);
  ++steps;
  if (std::isinf(sqnr_db)) {
    ++exact;
  } else {
    sum += sqnr_db;
  }
}

double StepSqnr::Mean() const {
  if (steps == exact) return Worst();
  return sum / static_cast<double>(steps - exact);
}

double StepSqnr::Worst() const {
  return steps == 0 ? std::numeric_limits<double>::quiet_NaN() : worst;
}

DelayedStudy::DelayedStudy(const QuantPlan& plan) : operands_(plan.activations) {
  for (const auto& [index, operand] : plan.activations) {
    traces_[index];
    std::vector<Replay>& replays = replays_[index];
    for (const DelayedRule rule : kDelayedRules) {
      DelayedParams params = operand.params.delayed;
      params.rule = rule;
      replays.push_back({DelayedScaling(params), {}});
    }
  }
}

void DelayedStudy::Add(int activation, const TensorView& x, size_t samples) {
  if (!replays_.contains(activation) || x.size() == 0) return;
  std::vector<float> buffer;
  const std::span<const float> values = AsFloats(x, &buffer);
  const size_t steps = values.size() % samples == 0 ? samples : 1;
  const size_t size = values.size() / steps;
  for (size_t step = 0; step < steps; ++step) {
    AddStep(activation, values.subspan(step * size, size));
  }
}

void DelayedStudy::AddStep(int activation, std::span<const float> x) {
  const OperandPlan& operand = operands_.at(activation);
  std::vector<Replay>& replays = replays_.at(activation);
  float amax = 0;
  bool finite = true;
  for (const float v : x) {
    amax = std::max(amax, std::fabs(v));
    finite = finite && std::isfinite(v);
  }
  if (!finite) amax = std::numeric_limits<float>::quiet_NaN();
  std::map<double, StepOutcome> tried;  // rules often agree
  std::array<double, kDelayedRules.size()> estimates{};
  for (size_t i = 0; i < replays.size(); ++i) {
    Replay& replay = replays[i];
    const double estimate = estimates.at(i) = replay.scaling.Step(amax);
    ++replay.outcome.steps;
    if (!finite) {
      ++replay.outcome.non_finite_steps;
      continue;
    }
    const auto [found, added] = tried.try_emplace(estimate);
    if (added) found->second = Try(operand, x, amax, estimate, &rounded_);
    Count(found->second, x.size(), amax, estimate, &replay.outcome);
  }
  traces_.at(activation).Add(amax, estimates);
}

std::string DelayedStudy::State(const Model& model, const Fingerprint& fingerprint) const {
  YAML::Emitter out;
  out << YAML::BeginMap << YAML::Key << "version" << YAML::Value << 1;
  out << YAML::Key << "model" << YAML::Value << YAML::DoubleQuoted << fingerprint.hash;
  out << YAML::Key << "activations" << YAML::Value << YAML::BeginSeq;
  for (const auto& [index, replays] : replays_) {
    const OperandPlan& operand = operands_.at(index);
    const DelayedParams& params = operand.params.delayed;
    out << YAML::BeginMap << YAML::Key << "tensor" << YAML::Value << YAML::DoubleQuoted
        << model.activations()[static_cast<size_t>(index)].name;
    out << YAML::Key << "target" << YAML::Value
        << ShortestText(ResolveTarget(*operand.format, operand.params));
    out << YAML::Key << "history" << YAML::Value << params.history;
    out << YAML::Key << "interval" << YAML::Value << params.interval;
    out << YAML::Key << "alpha" << YAML::Value << ShortestText(params.alpha);
    out << YAML::Key << "rules" << YAML::Value << YAML::BeginMap;
    for (size_t i = 0; i < replays.size(); ++i) {
      const DelayedScaling& scaling = replays[i].scaling;
      out << YAML::Key << std::string(NameOf(kDelayedRules.at(i))) << YAML::Value << YAML::Flow
          << YAML::BeginMap;
      out << YAML::Key << "step" << YAML::Value << scaling.step();
      const std::optional<double> estimate = scaling.Estimate();
      out << YAML::Key << "estimate" << YAML::Value;
      if (estimate) {
        out << ShortestText(*estimate);
      } else {
        out << YAML::Null;
      }
      out << YAML::Key << "history" << YAML::Value << YAML::BeginSeq;
      for (const float amax : scaling.history()) out << ShortestText(amax);
      out << YAML::EndSeq << YAML::EndMap;
    }
    out << YAML::EndMap << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace hif8
