#include "lib/model/safetensors/quantization_config.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "lib/core/input_file.h"
#include "lib/model/safetensors/config_groups.h"
#include "lib/model/safetensors/fused_modules.h"

namespace hif8 {
namespace {

using Json = OrderedJson;

// The modules that vLLM and its relatives make of others, as Layer::fused has them.
const std::map<std::string, std::string>& MergedNames() {
  static const std::map<std::string, std::string> kNames = {
      {"qkv_proj", "qkv_proj"},
      {"gate_up_proj", "gate_up_proj"},
      {"fused_qkv_a_proj", "fused_qkv_a_proj"}};
  return kNames;
}

Json Operand(const NumberFormat& format, Granularity granularity, TileScales::Tile tile,
             bool dynamic) {
  // A block of one row is what other programs call a group.
  if (granularity == Granularity::kBlock && tile.rows == 1) granularity = Granularity::kGroup;
  const FormatStorage& storage = format.storage();
  // Scales of groups that are stored over one scale of the tensor, which is static.
  const bool coded = storage.scale_encoding == ScaleEncoding::kCodes;
  Json json = {{"num_bits", format.bits()},
               {"type", storage.operand_type},
               {"strategy", (coded ? "tensor_" : "") + std::string(NameOf(granularity))},
               {"symmetric", true},
               {"dynamic", dynamic},
               {"observer", dynamic && !coded ? "memoryless" : "minmax"},
               {"observer_kwargs", Json::object()},
               {"group_size", nullptr},
               {"block_structure", nullptr},
               {"actorder", nullptr}};
  if (coded && dynamic) json["dynamic"] = "local";
  if (granularity == Granularity::kGroup) json["group_size"] = tile.inputs;
  if (granularity == Granularity::kBlock) json["block_structure"] = {tile.rows, tile.inputs};
  if (!storage.scale_dtype.empty()) json["scale_dtype"] = storage.scale_dtype;
  return json;
}

// The format of a layer's codes, of weights or activations, that no type says; empty where there
// are none.
std::string UnnamedFormat(const LayerScheme& scheme) {
  for (const NumberFormat* format : {scheme.weight_format, scheme.input_format}) {
    if (format == nullptr || format->packed() || format->storage().dtype != DType::kU8) continue;
    return std::string(format->name());
  }
  return {};
}

// U8 codes, of weights or activations, have a format of their own ("hif8-quantized"): readers that
// do not know it refuse the layers, where "float-quantized" would be FP8 to them.
std::string GroupFormat(const LayerScheme& scheme) {
  const std::string unnamed = UnnamedFormat(scheme);
  if (!unnamed.empty()) return unnamed + "-quantized";
  return std::string(scheme.weight_format->storage().layer_format);
}

// Readers must be told the layer's format where it is none of those that need no name.
bool NeedsFormat(const LayerScheme& scheme) {
  return scheme.weight_format->scale_encoding() != ScaleEncoding::kFp32 ||
         !UnnamedFormat(scheme).empty();
}

// The regular expression that matches the names which differ from this one in numbers only.
std::string NumberPattern(const std::string& name) {
  std::string pattern;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c >= '0' && c <= '9') {
      if (i == 0 || name[i - 1] < '0' || name[i - 1] > '9') pattern += "\\d+";
    } else {
      if (std::string_view(".^$*+?()[]{}|\\").find(c) != std::string_view::npos) pattern += '\\';
      pattern += c;
    }
  }
  return pattern;
}

using PatternCounts = std::map<std::string, size_t>;
PatternCounts CountPatterns(const std::vector<std::string>& names) {
  PatternCounts counts;
  for (const std::string& name : names) ++counts[NumberPattern(name)];
  return counts;
}

// Names of these layers that are Linear, or of the modules that are made of them, each once.
std::vector<std::string> LinearNames(const std::vector<const Layer*>& layers) {
  std::vector<std::string> names;
  for (const Layer* layer : layers) {
    if (layer->op == "Linear") names.push_back(layer->name);
  }
  return names;
}
std::vector<std::string> MergedNamesOf(const std::vector<const Layer*>& layers,
                                       const std::map<std::string, std::string>& merged) {
  std::vector<std::string> names;
  std::set<std::string_view> seen;
  for (const Layer* layer : layers) {
    if (layer->fused.empty() || !seen.insert(layer->fused).second) continue;
    const auto name = merged.find(layer->fused.substr(layer->fused.rfind('.') + 1));
    if (name != merged.end()) names.push_back(Renamed(layer->fused, name->second));
  }
  return names;
}

// Full names, or one pattern for those that it matches without matching another of `all`.
void AddTargets(const std::vector<std::string>& names, const PatternCounts& all, Json* targets) {
  PatternCounts own = CountPatterns(names);
  for (const std::string& name : names) {
    const std::string pattern = NumberPattern(name);
    const auto count = own.find(pattern);
    if (count == own.end()) continue;  // listed
    if (count->second < 2 || count->second != all.at(pattern)) {
      targets->push_back(name);
      continue;
    }
    targets->push_back("re:^" + pattern + "$");
    own.erase(count);
  }
}

std::vector<const Layer*> AllLayers(const Checkpoint& source) {
  std::vector<const Layer*> layers;
  for (const Layer& layer : source.layers()) layers.push_back(&layer);
  return layers;
}

Json ConfigGroups(const Checkpoint& source, const std::vector<SchemeGroup>& groups) {
  Json json = Json::object();
  for (size_t i = 0; i < groups.size(); ++i) {
    const LayerScheme& scheme = groups[i].scheme;
    Json group;
    group["targets"] =
        i == 0 ? Json{"Linear"} : LayerTargets(source, groups[i].layers, MergedNames());
    group["weights"] = WeightArguments(scheme);
    group["input_activations"] = InputArguments(scheme);
    group["output_activations"] = nullptr;
    if (groups.size() > 1 || NeedsFormat(scheme)) group["format"] = GroupFormat(scheme);
    json["group_" + std::to_string(i)] = std::move(group);
  }
  return json;
}

std::string UnnamedFormat(const std::vector<SchemeGroup>& groups) {
  for (const SchemeGroup& group : groups) {
    if (std::string format = UnnamedFormat(group.scheme); !format.empty()) return format;
  }
  return {};
}

// What the top level says: readers that look nowhere else must not take HiF8 for anything.
std::string TopFormat(const std::vector<SchemeGroup>& groups) {
  const std::string unnamed = UnnamedFormat(groups);
  if (!unnamed.empty()) return unnamed + "-quantized";
  if (groups.empty()) return "dense";  // only the cache is quantized
  return groups.size() == 1 ? GroupFormat(groups[0].scheme) : "mixed-precision";
}

Json QuantizationConfig(const Checkpoint& source, const std::map<int, LayerScheme>& layers,
                        const NumberFormat* cache_format) {
  const std::vector<SchemeGroup> groups = GroupLayers(source, layers);
  Json json;
  json["quant_method"] = "compressed-tensors";
  json["format"] = TopFormat(groups);
  json["quantization_status"] = "compressed";
  json["global_compression_ratio"] = 1;
  json["config_groups"] = ConfigGroups(source, groups);
  json["ignore"] = KeptLinears(source, layers, {});
  json["kv_cache_scheme"] = nullptr;
  if (cache_format != nullptr) {
    json["kv_cache_scheme"] = {{"num_bits", 8},
                               {"type", cache_format->storage().operand_type},
                               {"strategy", source.head_caches() ? "attn_head" : "tensor"},
                               {"symmetric", true},
                               {"dynamic", false}};
  }
  const std::string unnamed = UnnamedFormat(groups);
  if (!unnamed.empty()) json["number_format"] = unnamed;
  return json;
}

}  // namespace

DType OwnDType(const ModelConfig& config) {
  std::string name = config.String("torch_dtype", config.String("dtype", "bfloat16"));
  if (name.starts_with("torch.")) name.erase(0, 6);
  if (name == "float16") return DType::kF16;
  if (name == "float32") return DType::kF32;
  return DType::kBF16;
}

std::vector<SchemeGroup> GroupLayers(const Checkpoint& source,
                                     const std::map<int, LayerScheme>& layers) {
  std::vector<SchemeGroup> groups;
  for (const auto& [index, scheme] : layers) {
    auto group =
        std::find_if(groups.begin(), groups.end(),
                     [&, &wanted = scheme](const SchemeGroup& g) { return g.scheme == wanted; });
    if (group == groups.end()) group = groups.insert(groups.end(), {scheme, {}});
    group->layers.push_back(index);
  }
  const auto rank = [&](const SchemeGroup& g) {
    const auto experts = std::count_if(g.layers.begin(), g.layers.end(), [&](int layer) {
      return IsExpert(source.layers()[static_cast<size_t>(layer)].name);
    });
    return std::pair(static_cast<ptrdiff_t>(g.layers.size()) - experts, g.layers.size());
  };
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const SchemeGroup& a, const SchemeGroup& b) { return rank(a) > rank(b); });
  return groups;
}

Json LayerTargets(const Checkpoint& source, const std::vector<int>& layers,
                  const std::map<std::string, std::string>& merged) {
  const std::vector<const Layer*> all = AllLayers(source);
  std::vector<const Layer*> own;
  own.reserve(layers.size());
  for (const int layer : layers) own.push_back(all[static_cast<size_t>(layer)]);
  Json targets = Json::array();
  AddTargets(LinearNames(own), CountPatterns(LinearNames(all)), &targets);
  AddTargets(MergedNamesOf(own, merged), CountPatterns(MergedNamesOf(all, merged)), &targets);
  return targets;
}

Json WeightArguments(const LayerScheme& scheme) {
  return Operand(*scheme.weight_format, scheme.weight_granularity, scheme.weight_tile, false);
}

Json InputArguments(const LayerScheme& scheme) {
  if (scheme.input_format == nullptr) return nullptr;
  return Operand(*scheme.input_format, scheme.input_granularity, scheme.input_tile,
                 scheme.input_dynamic);
}

Json KeptLinears(const Checkpoint& source, const std::map<int, LayerScheme>& layers,
                 const std::map<std::string, std::string>& merged) {
  std::vector<const Layer*> others;
  Json names = Json::array();
  bool head_found = false;
  for (size_t i = 0; i < source.layers().size(); ++i) {
    const Layer& layer = source.layers()[i];
    const bool is_head = layer.option == "lm_head";
    head_found |= is_head;
    if (layer.op != "Linear" || layers.contains(static_cast<int>(i))) continue;
    if (is_head) {
      names.push_back(layer.name);
    } else {
      others.push_back(&layer);
    }
  }
  if (!head_found && source.tied()) names.push_back("lm_head");
  for (const std::string& name : LinearNames(others)) names.push_back(name);
  for (const std::string& name : MergedNamesOf(others, merged)) names.push_back(name);
  return names;
}

std::string ConfigText(const Checkpoint& source, const Json& quantization) {
  Json config = Json::object();
  if (source.has_config()) {
    const std::filesystem::path path = source.path() / "config.json";
    config = ParseJson<Json>(ReadFile(path), path.string());
  }
  if (quantization.is_null()) {
    config.erase("quantization_config");
  } else {
    config["quantization_config"] = quantization;
  }
  return config.dump(2) + "\n";
}

std::string QuantizedConfigText(const Checkpoint& source, const std::map<int, LayerScheme>& layers,
                                const NumberFormat* cache_format) {
  if (layers.empty() && cache_format == nullptr) return ConfigText(source, nullptr);
  return ConfigText(source, QuantizationConfig(source, layers, cache_format));
}

}  // namespace hif8
