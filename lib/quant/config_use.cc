#include "lib/quant/config_use.h"

#include <algorithm>
#include <array>

#include "lib/core/error.h"
#include "lib/quant/config_params.h"

namespace hif8 {
namespace {

bool HasOption(const Model& model, std::string_view option) {
  return std::any_of(model.layers().begin(), model.layers().end(),
                     [&](const Layer& layer) { return layer.option == option; });
}

bool HasExperts(const Model& model) {
  return std::any_of(model.layers().begin(), model.layers().end(), [](const Layer& layer) {
    return layer.name.find(".experts.") != std::string::npos;
  });
}

// Why the model has nothing for a setting of that key, or empty.
std::string NothingFor(std::string_view key, const Model& model) {
  const bool onnx = model.kind() == "onnx";
  if (key == "kv_cache.rule" && !HasOption(model, "kv_cache")) {
    return onnx ? "an ONNX model has no cache of its own, only inputs and outputs"
                : "the architecture of this checkpoint, and so its cache, is not known";
  }
  if (key == "kv_cache.per_head" &&
      std::none_of(model.layers().begin(), model.layers().end(), [](const Layer& layer) {
        return layer.kind == LayerKind::kCache && !layer.fused.empty();
      })) {
    return "it has no cache of keys and values by head";
  }
  if (key == "attention" && !HasOption(model, key)) return "the model multiplies no activations";
  if (key == "beside" && std::all_of(model.layers().begin(), model.layers().end(),
                                     [](const Layer& layer) { return layer.beside.empty(); })) {
    return "the model has nothing beside the network";
  }
  if (key == "embeddings" && !HasOption(model, key)) return "the model has no embedding table";
  if (key == "lm_head" && !HasOption(model, key)) {
    return onnx ? "an ONNX model's head is a layer as any other"
                : "the model has no head of its own";
  }
  if (key.starts_with("experts.") && !HasExperts(model)) return "the model has no experts";
  if (onnx && (key == "layout" || key == "fused_groups" || key == "policy")) {
    return "loaders of checkpoints read no ONNX model";
  }
  if (onnx && key == "propagate") return "an ONNX model is observed as a whole";
  if (onnx && key == "data.sequence_length") return "an ONNX model reads no text";
  if (!onnx && key == "data.sequence_length" && model.reads_images())
    return "the network reads no text";
  if (key.starts_with("data.image.") && !model.reads_images()) {
    return "this checkpoint's network reads no images";
  }
  if (!onnx && (key == "data.batch" || key == "data.drop_last")) {
    return "a checkpoint takes one sequence after the other";
  }
  return {};
}

// Whether some layer may use that scale rule.
bool UsesRule(const QuantConfig& config, const std::string& operand, const std::string& rule) {
  const auto is_rule = [&](const ParamSetting& setting) {
    return setting.key == operand + ".rule" && setting.value == ParamValue(rule);
  };
  if (FindParam(operand + ".rule")->get(config) == ParamValue(rule)) return true;
  return std::any_of(config.overrides.begin(), config.overrides.end(), [&](const Override& o) {
    return std::any_of(o.settings.begin(), o.settings.end(), is_rule);
  });
}

bool SetsActivationRule(const QuantConfig& config) {
  return std::any_of(config.overrides.begin(), config.overrides.end(), [](const Override& o) {
    return std::any_of(o.settings.begin(), o.settings.end(),
                       [](const ParamSetting& s) { return s.key == "activations.rule"; });
  });
}

// Why a setting of that key changes nothing beside the others, or empty.
std::string NoEffect(const std::string& key, const QuantConfig& config,
                     const CalibratorRegistry& rules) {
  static const std::array<std::string, 3> kOperands = {"weights", "activations", "kv_cache"};
  const std::string& activations = config.activations.rule;
  if (activations == kRuleOff && (key == "attention" || key.starts_with("activations."))) {
    return key == "activations.rule" || SetsActivationRule(config) ? "" : "activations.rule is off";
  }
  if (key == "activations.clip" && !rules.Get(activations).traits().needs_data) {
    return "rule " + activations + " maps nothing to a target";
  }
  if (key == "kv_cache.per_head" && config.kv_cache.rule == kRuleOff) return "kv_cache.rule is off";
  for (const std::string& rule : rules.names()) {
    const std::string settings(rules.Get(rule).traits().settings);
    if (settings.empty()) continue;
    for (const std::string& operand : kOperands) {
      if (key == operand + "." + settings && !UsesRule(config, operand, rule)) {
        return operand + ".rule is not " + rule;
      }
    }
    const auto used = [&](const std::string& operand) { return UsesRule(config, operand, rule); };
    if (key.starts_with(settings + ".") && std::none_of(kOperands.begin(), kOperands.end(), used)) {
      return "no rule is " + rule;
    }
  }
  return {};
}

}  // namespace

void CheckUse(const QuantConfig& config, const Model& model, const ParseContext& context,
              LogSink& log) {
  const QuantConfig defaults = LoadConfig("inference", {}, {}, context);
  std::string refused;
  for (const Param& param : RecipeParams()) {
    if (param.input_only || param.get(config) == param.get(defaults)) continue;
    if (const std::string why = NothingFor(param.key, model); !why.empty()) {
      refused += (refused.empty() ? "" : "; ") + param.key + ": " + why;
    } else if (const std::string idle = NoEffect(param.key, config, context.rules); !idle.empty()) {
      log.Warn(param.key + " has no effect: " + idle);
    }
  }
  if (refused.empty()) return;
  throw UsageError("the recipe asks for what this model does not have: " + refused,
                   "leave that out, of the recipe, the flags and the environment",
                   model.path().string());
}

}  // namespace hif8
