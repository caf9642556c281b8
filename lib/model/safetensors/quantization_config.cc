#include "lib/model/safetensors/quantization_config.h"

#include <algorithm>

#include "lib/core/output_dir.h"
#include "lib/model/safetensors/json_text.h"

namespace hif8 {
namespace {

using Json = nlohmann::ordered_json;

struct Group {
  LayerScheme scheme;
  std::vector<std::string> modules;
};

bool IsInteger(const std::string& format) { return format.starts_with("int"); }

Json Operand(const std::string& format, int bits, Granularity granularity, bool dynamic) {
  return {{"num_bits", bits},
          {"type", IsInteger(format) ? "int" : "float"},
          {"strategy", GranularityName(granularity)},
          {"symmetric", true},
          {"dynamic", dynamic},
          {"observer", dynamic ? "memoryless" : "minmax"},
          {"observer_kwargs", Json::object()},
          {"group_size", nullptr},
          {"block_structure", nullptr},
          {"actorder", nullptr}};
}

std::string GroupFormat(const LayerScheme& scheme) {
  return IsInteger(scheme.weight_format) ? "int-quantized" : "float-quantized";
}

// Layers of one scheme together; the largest group first, so that it may stand for all Linear.
std::vector<Group> GroupLayers(const Checkpoint& source, const std::map<int, LayerScheme>& layers) {
  std::vector<Group> groups;
  for (const auto& [index, scheme] : layers) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&, &wanted = scheme](const Group& g) { return g.scheme == wanted; });
    if (group == groups.end()) group = groups.insert(groups.end(), {scheme, {}});
    group->modules.push_back(source.layers()[static_cast<size_t>(index)].name);
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return a.modules.size() > b.modules.size();
  });
  return groups;
}

Json ConfigGroups(const std::vector<Group>& groups) {
  Json json = Json::object();
  for (size_t i = 0; i < groups.size(); ++i) {
    const LayerScheme& scheme = groups[i].scheme;
    Json group;
    group["targets"] = i == 0 ? Json{"Linear"} : Json(groups[i].modules);
    group["weights"] =
        Operand(scheme.weight_format, scheme.weight_bits, scheme.weight_granularity, false);
    group["input_activations"] = nullptr;
    if (!scheme.input_format.empty()) {
      group["input_activations"] = Operand(scheme.input_format, scheme.input_bits,
                                           scheme.input_granularity, scheme.input_dynamic);
    }
    group["output_activations"] = nullptr;
    if (groups.size() > 1) group["format"] = GroupFormat(scheme);
    json["group_" + std::to_string(i)] = std::move(group);
  }
  return json;
}

// Every Linear that is not quantized, by full name. A tied head has no tensor of its own, but
// readers build a Linear for it all the same.
Json KeptLinears(const Checkpoint& source, const std::map<int, LayerScheme>& layers) {
  Json heads = Json::array();
  Json others = Json::array();
  bool head_found = false;
  for (size_t i = 0; i < source.layers().size(); ++i) {
    const Layer& layer = source.layers()[i];
    const bool is_head = layer.option == "lm_head";
    head_found |= is_head;
    if (layer.op != "Linear" || layers.contains(static_cast<int>(i))) continue;
    (is_head ? heads : others).push_back(layer.name);
  }
  if (!head_found && source.config().Bool("tie_word_embeddings", false)) heads.push_back("lm_head");
  heads.insert(heads.end(), others.begin(), others.end());
  return heads;
}

Json QuantizationConfig(const Checkpoint& source, const std::map<int, LayerScheme>& layers,
                        bool kv_cache) {
  const std::vector<Group> groups = GroupLayers(source, layers);
  Json json;
  json["quant_method"] = "compressed-tensors";
  json["format"] = groups.size() == 1 ? GroupFormat(groups[0].scheme) : "mixed-precision";
  json["quantization_status"] = "compressed";
  json["global_compression_ratio"] = 1;
  json["config_groups"] = ConfigGroups(groups);
  json["ignore"] = KeptLinears(source, layers);
  json["kv_cache_scheme"] = nullptr;
  if (kv_cache) {
    json["kv_cache_scheme"] = {{"num_bits", 8},
                               {"type", "float"},
                               {"strategy", "tensor"},
                               {"symmetric", true},
                               {"dynamic", false}};
  }
  json["number_format"] = groups[0].scheme.weight_format;
  return json;
}

}  // namespace

DType CodeDType(const std::string& format) {
  if (format == "fp8_e4m3") return DType::kF8E4M3;
  if (format == "fp8_e5m2") return DType::kF8E5M2;
  if (IsInteger(format)) return DType::kI8;
  return DType::kU8;
}

std::string QuantizedConfigText(const Checkpoint& source, const std::map<int, LayerScheme>& layers,
                                bool kv_cache) {
  Json config = Json::object();
  if (source.has_config()) {
    const std::filesystem::path path = source.path() / "config.json";
    config = ParseJson<Json>(ReadFile(path), path.string());
  }
  if (layers.empty()) {
    config.erase("quantization_config");
  } else {
    config["quantization_config"] = QuantizationConfig(source, layers, kv_cache);
  }
  return config.dump(2) + "\n";
}

}  // namespace hif8
