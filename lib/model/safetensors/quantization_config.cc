#include "lib/model/safetensors/quantization_config.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "lib/core/input_file.h"
#include "lib/model/safetensors/json_text.h"

namespace hif8 {
namespace {

using Json = nlohmann::ordered_json;

struct Group {
  LayerScheme scheme;
  std::vector<std::string> modules;
};

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

bool IsExpert(const std::string& module) { return module.find(".experts.") != std::string::npos; }

// Layers of one scheme together. The first group may stand for all Linear: the largest one, experts
// aside, which differ from the rest more often than they do not.
std::vector<Group> GroupLayers(const Checkpoint& source, const std::map<int, LayerScheme>& layers) {
  std::vector<Group> groups;
  for (const auto& [index, scheme] : layers) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&, &wanted = scheme](const Group& g) { return g.scheme == wanted; });
    if (group == groups.end()) group = groups.insert(groups.end(), {scheme, {}});
    group->modules.push_back(source.layers()[static_cast<size_t>(index)].name);
  }
  const auto rank = [](const Group& g) {
    const auto experts = std::count_if(g.modules.begin(), g.modules.end(), IsExpert);
    return std::pair(static_cast<ptrdiff_t>(g.modules.size()) - experts, g.modules.size());
  };
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const Group& a, const Group& b) { return rank(a) > rank(b); });
  return groups;
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

// How many Linear layers of the checkpoint each pattern matches.
using PatternCounts = std::map<std::string, size_t>;
PatternCounts CountPatterns(const Checkpoint& source) {
  PatternCounts counts;
  for (const Layer& layer : source.layers()) {
    if (layer.op == "Linear") ++counts[NumberPattern(layer.name)];
  }
  return counts;
}

// Full names, or one pattern for those that it matches without matching any other Linear.
Json Targets(const std::vector<std::string>& modules, const PatternCounts& all) {
  PatternCounts own;
  for (const std::string& module : modules) ++own[NumberPattern(module)];
  Json targets = Json::array();
  for (const std::string& module : modules) {
    const std::string pattern = NumberPattern(module);
    const auto count = own.find(pattern);
    if (count == own.end()) continue;  // listed
    if (count->second < 2 || count->second != all.at(pattern)) {
      targets.push_back(module);
      continue;
    }
    targets.push_back("re:^" + pattern + "$");
    own.erase(count);
  }
  return targets;
}

Json ConfigGroups(const std::vector<Group>& groups, const PatternCounts& patterns) {
  Json json = Json::object();
  for (size_t i = 0; i < groups.size(); ++i) {
    const LayerScheme& scheme = groups[i].scheme;
    Json group;
    group["targets"] = i == 0 ? Json{"Linear"} : Targets(groups[i].modules, patterns);
    group["weights"] =
        Operand(*scheme.weight_format, scheme.weight_granularity, scheme.weight_tile, false);
    group["input_activations"] = nullptr;
    if (scheme.input_format != nullptr) {
      group["input_activations"] = Operand(*scheme.input_format, scheme.input_granularity,
                                           scheme.input_tile, scheme.input_dynamic);
    }
    group["output_activations"] = nullptr;
    if (groups.size() > 1 || NeedsFormat(scheme)) group["format"] = GroupFormat(scheme);
    json["group_" + std::to_string(i)] = std::move(group);
  }
  return json;
}

std::string UnnamedFormat(const std::vector<Group>& groups) {
  for (const Group& group : groups) {
    if (std::string format = UnnamedFormat(group.scheme); !format.empty()) return format;
  }
  return {};
}

// What the top level says: readers that look nowhere else must not take HiF8 for anything.
std::string TopFormat(const std::vector<Group>& groups) {
  const std::string unnamed = UnnamedFormat(groups);
  if (!unnamed.empty()) return unnamed + "-quantized";
  return groups.size() == 1 ? GroupFormat(groups[0].scheme) : "mixed-precision";
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
  if (!head_found && source.tied()) heads.push_back("lm_head");
  heads.insert(heads.end(), others.begin(), others.end());
  return heads;
}

Json QuantizationConfig(const Checkpoint& source, const std::map<int, LayerScheme>& layers,
                        bool kv_cache) {
  const std::vector<Group> groups = GroupLayers(source, layers);
  Json json;
  json["quant_method"] = "compressed-tensors";
  json["format"] = TopFormat(groups);
  json["quantization_status"] = "compressed";
  json["global_compression_ratio"] = 1;
  json["config_groups"] = ConfigGroups(groups, CountPatterns(source));
  json["ignore"] = KeptLinears(source, layers);
  json["kv_cache_scheme"] = nullptr;
  if (kv_cache) {
    json["kv_cache_scheme"] = {{"num_bits", 8},
                               {"type", "float"},
                               {"strategy", "tensor"},
                               {"symmetric", true},
                               {"dynamic", false}};
  }
  const std::string unnamed = UnnamedFormat(groups);
  if (!unnamed.empty()) json["number_format"] = unnamed;
  return json;
}

}  // namespace

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
