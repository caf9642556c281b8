// From levels of settings to a complete configuration.
#include <cmath>
#include <utility>

#include "lib/quant/config_reader.h"

namespace hif8 {
namespace {

const char* const kOperands[] = {"weights", "activations", "kv_cache"};

OperandConfig& Operand(QuantConfig& config, const std::string& name) {
  if (name == "weights") return config.weights;
  return name == "activations" ? config.activations : config.kv_cache;
}

}  // namespace

ConfigBuilder::ConfigBuilder(const ParseContext& context, Diagnostics& diagnostics)
    : context_(context), diagnostics_(diagnostics) {
  for (const char* name : kOperands) {
    Operand(config_, name).format = context_.formats.names().front();
    Operand(config_, name).rule = context_.rules.names().front();
  }
  config_.weights.granularity = Granularity::kChannel;
  config_.weights.percentile = 99.9;
  config_.kv_cache.rule = kRuleOff;
}

void ConfigBuilder::CheckConflicts(const Level& level) {
  for (const char* name : kOperands) {
    const std::string key = name;
    const Level::Entry* guard = level.Find(key + ".guard");
    if (guard == nullptr || level.Find(key + ".target") == nullptr) continue;
    diagnostics_.Add(guard->setting.where, key + ": both target and guard are given",
                     "they say the same thing in two ways: keep one");
  }
}

void ConfigBuilder::Apply(Level level) {
  CheckConflicts(level);
  for (Level::Entry& entry : level.Sorted()) {
    ParamSetting& setting = entry.setting;
    if (entry.append) {
      auto list = std::get<std::vector<LayerPattern>>(FindParam(setting.key)->get(config_));
      for (LayerPattern& more : std::get<std::vector<LayerPattern>>(setting.value)) {
        list.push_back(std::move(more));
      }
      setting.value = std::move(list);
    }
    ApplySetting(config_, setting);
    config_.places.at[setting.key] = setting.where;
  }
  if (level.has_overrides) config_.overrides = std::move(level.overrides);
}

double ConfigBuilder::TargetOf(const NumberFormat& format, std::optional<int> guard,
                               const std::string& where) {
  if (!guard) return format.DefaultTarget();
  if (format.ClipsAtMax()) {
    diagnostics_.Add(where,
                     "guard: the format '" + std::string(format.name()) +
                         "' has no room above its target to keep free",
                     "give a target instead, or leave both out");
    return format.DefaultTarget();
  }
  // A target of 2^(e - N), e the largest exponent.
  return std::ldexp(1.0, std::ilogb(format.MaxFinite()) - *guard);
}

void ConfigBuilder::CheckTarget(const NumberFormat& format, double target,
                                const std::string& where) {
  if (target <= format.MaxFinite()) return;
  diagnostics_.Add(
      where,
      "a target of " + NumberText(target) + " is beyond the largest value of '" +
          std::string(format.name()) + "', " + NumberText(format.MaxFinite()),
      "give a smaller target, or none for the format's own, " + NumberText(format.DefaultTarget()));
}

void ConfigBuilder::FinishOperand(OperandConfig& operand, const std::string& name) {
  const NumberFormat& format = context_.formats.Get(operand.format);
  if (operand.target == 0) {
    operand.target = operand.granularity == Granularity::kToken && !operand.guard
                         ? format.TokenTarget()
                         : TargetOf(format, operand.guard, config_.places.Of(name + ".guard"));
  }
  operand.guard.reset();
  CheckTarget(format, operand.target, config_.places.Of(name + ".target"));
}

void ConfigBuilder::FinishOverride(Override& entry, const std::string& operand,
                                   const std::string& base_format) {
  std::string format_name = base_format;
  std::optional<int> guard;
  std::string where = entry.pattern.where;
  double target = 0;
  bool needs_target = false;
  bool per_token = false;
  std::vector<ParamSetting> kept;
  size_t place = 0;  // of a target: after a format
  for (ParamSetting& setting : entry.settings) {
    if (setting.key == operand + ".format") {
      format_name = std::get<std::string>(setting.value);
      needs_target = true;
    } else if (setting.key == operand + ".granularity") {
      per_token = std::get<std::string>(setting.value) == NameOf(Granularity::kToken);
      needs_target |= per_token;
    } else if (setting.key == operand + ".guard") {
      guard = static_cast<int>(std::get<int64_t>(setting.value));
      where = setting.where;
      needs_target = true;
      continue;
    } else if (setting.key == operand + ".target") {
      target = std::get<double>(setting.value);
      where = setting.where;
    }
    kept.push_back(std::move(setting));
    if (ParamIndex(kept.back().key) < ParamIndex(operand + ".target")) place = kept.size();
  }
  entry.settings = std::move(kept);
  const NumberFormat& format = context_.formats.Get(format_name);
  if (target != 0) {
    if (guard) {
      diagnostics_.Add(where, "overrides: both target and guard are given",
                       "they say the same thing in two ways: keep one");
    }
    CheckTarget(format, target, where);
  } else if (needs_target) {
    target = per_token && !guard ? format.TokenTarget() : TargetOf(format, guard, where);
    entry.settings.insert(entry.settings.begin() + static_cast<std::ptrdiff_t>(place),
                          {operand + ".target", target, where});
  }
}

QuantConfig ConfigBuilder::Finish() {
  for (const char* name : kOperands) FinishOperand(Operand(config_, name), name);
  for (Override& entry : config_.overrides) {
    FinishOverride(entry, "weights", config_.weights.format);
    FinishOverride(entry, "activations", config_.activations.format);
  }
  const OperandConfig& activations = config_.activations;
  const Calibrator* const rule = context_.rules.Find(activations.rule);
  if (activations.granularity == Granularity::kToken && rule != nullptr && !rule->traits().tiles &&
      rule->traits().needs_data) {
    const std::string rule_place = config_.places.Of("activations.rule");
    diagnostics_.Add(rule_place.empty() ? config_.places.Of("activations.granularity") : rule_place,
                     "activations: rule '" + activations.rule + "' with granularity token",
                     "scales per token are found when the model runs: use rule max");
  }
  diagnostics_.ThrowIfAny();
  return std::move(config_);
}

}  // namespace hif8
