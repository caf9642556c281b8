#include "lib/quant/fused_groups.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "lib/core/error.h"

namespace hif8 {
namespace {

// What loaders see of an operand: neither how its scale was chosen nor which number that is.
using Scheme = std::tuple<std::string, Granularity, ScaleDType, bool>;
Scheme SchemeOf(const OperandConfig& operand, const ParseContext& context) {
  if (operand.rule == kRuleOff) return {};
  const NumberFormat& format = context.formats.Get(operand.format);
  const TileScales* const own =
      format.storage().tiled ? format.TilesFor(operand.granularity) : nullptr;
  return {operand.format, own != nullptr ? own->granularity : operand.granularity,
          operand.scale_dtype, context.rules.Get(operand.rule).traits().needs_data};
}

bool SameScheme(const LayerDecision& a, const LayerDecision& b, const ParseContext& context) {
  if (!a.reason.empty() || !b.reason.empty()) return a.reason.empty() == b.reason.empty();
  const auto weight = [&](OperandConfig operand) {
    operand.rule = context.rules.names().front();  // of a weight no rule can be seen
    return SchemeOf(operand, context);
  };
  return weight(a.config.weights) == weight(b.config.weights) &&
         SchemeOf(a.config.activations, context) == SchemeOf(b.config.activations, context);
}

// "'a' ..., 'b' ... and 7 more"
std::string Listed(const std::vector<std::string>& parts) {
  constexpr size_t kMost = 3;
  std::string text;
  for (size_t i = 0; i < std::min(parts.size(), kMost); ++i) {
    text += (i == 0 ? "" : ", ") + parts[i];
  }
  if (parts.size() > kMost) text += " and " + std::to_string(parts.size() - kMost) + " more";
  return text;
}

Error TornModules(const std::vector<std::string>& modules, const QuantConfig& config) {
  return UsageError(
      "fused_groups: loaders run these layers as one, and they are given several "
      "schemes: " +
          Listed(modules),
      "write patterns that match all layers of a module, or set fused_groups: "
      "complete",
      config.places.Of("fused_groups"));
}

std::string KeptWith(const std::string& layer, const std::string& reason) {
  return "loaders run it as one with '" + layer + "', which stays: " + reason;
}

// Decides for all layers of a module together; returns what became of them.
std::string Complete(const Model& model, const std::vector<size_t>& module, const Decide& decide,
                     std::vector<LayerDecision>* decisions) {
  std::vector<std::string> names;
  std::vector<LayerDecision> together;
  names.reserve(module.size());
  together.reserve(module.size());
  for (const size_t i : module) names.push_back(model.layers()[i].name);
  for (const size_t i : module) together.push_back(decide(i, names));
  // One that stays by itself, for the same reason.
  size_t kept = module.size();
  for (size_t k = 0; k < module.size(); ++k) {
    const std::string& reason = together[k].reason;
    if (!reason.empty() && (*decisions)[module[k]].reason == reason) kept = std::min(kept, k);
  }
  for (size_t k = 0; k < module.size(); ++k) {
    LayerDecision& decision = (*decisions)[module[k]];
    const bool alone = !decision.reason.empty() && decision.reason == together[k].reason;
    if (!alone) decision = together[k];
    if (!alone && kept < module.size()) {
      decision.reason = KeptWith(names[kept], together[kept].reason);
    }
  }
  return kept == module.size() ? " is quantized" : " stays (" + together[kept].reason + ")";
}

}  // namespace

std::vector<std::vector<size_t>> FusedModules(const Model& model) {
  std::map<std::string_view, std::vector<size_t>> by_name;
  for (size_t i = 0; i < model.layers().size(); ++i) {
    const std::string& name = model.layers()[i].fused;
    if (!name.empty()) by_name[name].push_back(i);
  }
  std::vector<std::vector<size_t>> modules;
  for (auto& [name, layers] : by_name) {
    if (layers.size() > 1) modules.push_back(std::move(layers));
  }
  std::sort(modules.begin(), modules.end());  // the model's order
  return modules;
}

std::vector<std::string> CompleteModules(const Model& model, const QuantConfig& config,
                                         const ParseContext& context, const Decide& decide,
                                         std::vector<LayerDecision>* decisions) {
  if (config.fused_groups == FusedPolicy::kIgnore) return {};
  std::vector<std::string> changed;
  for (const std::vector<size_t>& module : FusedModules(model)) {
    const LayerDecision& first = (*decisions)[module.front()];
    if (std::all_of(module.begin(), module.end(),
                    [&](size_t i) { return SameScheme((*decisions)[i], first, context); })) {
      continue;
    }
    const std::string title = "'" + model.layers()[module.front()].fused + "'";
    changed.push_back(title);
    if (config.fused_groups == FusedPolicy::kError) continue;
    changed.back() += Complete(model, module, decide, decisions);
  }
  if (changed.empty()) return {};
  if (config.fused_groups == FusedPolicy::kError) throw TornModules(changed, config);
  return {"fused_groups: what loaders run as one was given several schemes and has one now: " +
          Listed(changed)};
}

std::vector<std::string> KeepWholeModules(const Model& model, const QuantConfig& config,
                                          QuantPlan* plan) {
  if (config.fused_groups == FusedPolicy::kIgnore) return {};
  std::vector<std::string> kept;
  std::vector<std::string> torn;
  for (const std::vector<size_t>& module : FusedModules(model)) {
    const auto quantized = [&](size_t i) { return plan->layers[i].quantized; };
    const auto first = std::find_if_not(module.begin(), module.end(), quantized);
    if (first == module.end() || std::none_of(module.begin(), module.end(), quantized)) continue;
    torn.push_back("'" + model.layers()[*first].fused + "' (" + plan->layers[*first].reason + ")");
    const std::string reason = KeptWith(model.layers()[*first].name, plan->layers[*first].reason);
    for (const size_t i : module) {
      if (!quantized(i)) continue;
      plan->layers[i] = {false, reason};
      kept.push_back(model.layers()[i].name);
    }
  }
  if (!torn.empty() && config.fused_groups == FusedPolicy::kError) {
    throw TornModules(torn, config);
  }
  KeepLayers(model, {}, "", plan);  // drops the operands that nobody uses any more
  return kept;
}

}  // namespace hif8
