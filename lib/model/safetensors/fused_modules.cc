#include "lib/model/safetensors/fused_modules.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace hif8 {
namespace {

constexpr std::string_view kExperts = ".experts";

std::string_view LastPart(std::string_view module) {
  return module.substr(module.rfind('.') + 1);  // npos + 1: the whole
}

// A module that loaders make of others, by last components.
struct FusedModule {
  std::string name;
  std::vector<std::string> parts;
};

std::vector<FusedModule> KnownFusedModules(const DecoderSpec* spec) {
  const std::string qkv = "qkv_proj";
  const std::string gate_up = "gate_up_proj";
  std::vector<FusedModule> modules = {{qkv, {"q_proj", "k_proj", "v_proj"}},
                                      {gate_up, {"gate_proj", "up_proj"}},
                                      {gate_up, {"w1", "w3"}},
                                      {"fused_qkv_a_proj", {"q_a_proj", "kv_a_proj_with_mqa"}},
                                      {"fused_wqa_wkv", {"wq_a", "wkv"}}};
  if (spec == nullptr) return modules;
  const auto add = [&](const std::string& name, const std::vector<std::string>& parts) {
    FusedModule module{name, {}};
    for (const std::string& part : parts) module.parts.emplace_back(LastPart(part));
    modules.insert(modules.begin(), std::move(module));
  };
  if (spec->mlp.fused.empty() && !spec->mlp.gate.empty())
    add(gate_up, {spec->mlp.gate, spec->mlp.up});
  const AttentionSpec& attention = spec->attention;
  if (attention.qkv.empty()) add(qkv, {attention.q, attention.k, attention.v});
  return modules;
}

}  // namespace

std::string Renamed(std::string_view module, std::string_view last) {
  const size_t begin = module.size() - LastPart(module).size();
  return std::string(module.substr(0, begin)) + std::string(last);
}

bool IsExpert(std::string_view module) {
  return module.find(std::string(kExperts) + ".") != std::string_view::npos;
}

void NameFusedModules(const DecoderSpec* spec, std::vector<Layer>* layers) {
  std::unordered_map<std::string_view, Layer*> linears;
  for (Layer& layer : *layers) {
    if (layer.op == "Linear" && !layer.optional) linears.emplace(layer.name, &layer);
    const size_t end = layer.name.find_last_not_of("0123456789");
    if (layer.kind == LayerKind::kCache && layer.name[end] == '.')
      layer.fused = layer.name.substr(0, end);
  }
  const std::vector<FusedModule> modules = KnownFusedModules(spec);
  for (const auto& [name, layer] : linears) {
    if (IsExpert(name)) {
      layer->fused = name.substr(0, name.find(std::string(kExperts) + ".") + kExperts.size());
      continue;
    }
    for (const FusedModule& module : modules) {
      const auto& parts = module.parts;
      if (std::find(parts.begin(), parts.end(), LastPart(name)) == parts.end()) continue;
      const bool whole = std::all_of(parts.begin(), parts.end(), [&, &at = name](const auto& part) {
        return linears.contains(Renamed(at, part));
      });
      if (!whole) continue;
      layer->fused = Renamed(name, module.name);
      break;
    }
  }
}

}  // namespace hif8
