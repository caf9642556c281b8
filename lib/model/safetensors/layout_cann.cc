// What Ascend's public inference recipes (hicann/cann-recipes-infer, module/quantization and the
// load_weights of their models) read.
#include <algorithm>
#include <array>
#include <span>

#include "lib/model/safetensors/checkpoint_layout.h"
#include "lib/model/safetensors/config_groups.h"
#include "lib/model/safetensors/fused_modules.h"

namespace hif8 {
namespace {

// A scheme that the recipes have a class for. The granularities count where the format leaves them
// open.
struct Form {
  std::string_view weights, inputs;  // number formats
  Granularity weight_granularity, input_granularity;
  bool linear, experts;  // of which layers
  // The quant_method that holds it for all layers, experts too, when it is the only scheme; empty:
  // compressed-tensors does.
  std::string_view native;
};
constexpr Granularity kChannel = Granularity::kChannel;
constexpr Granularity kTensor = Granularity::kTensor;
constexpr Granularity kToken = Granularity::kToken;
constexpr Granularity kGroup = Granularity::kGroup;
constexpr Granularity kBlock = Granularity::kBlock;
constexpr std::string_view kFp8Blocks = "fp8_e4m3_block";
// clang-format off
constexpr std::array<Form, 6> kForms = {{
    {"hif8",     "hif8",     kChannel, kTensor, true,  false, ""},
    {"int8",     "int8",     kChannel, kToken,  true,  true,  ""},
    {"mxfp8",    "mxfp8",    kGroup,   kGroup,  true,  false, "mxfp8"},
    {"mxfp4",    "mxfp4",    kGroup,   kGroup,  true,  true,  ""},
    {"mxfp4",    "mxfp8",    kGroup,   kGroup,  false, true,  ""},
    {kFp8Blocks, kFp8Blocks, kBlock,   kBlock,  true,  false, "fp8"},
}};
// clang-format on

// A bias that the operator adds before it multiplies by the scales.
bool AddsBiasFirst(const LayerScheme& scheme) { return scheme.weight_format->name() == "hif8"; }

std::string_view InputName(const LayerScheme& scheme) {
  return scheme.input_format == nullptr ? "full precision" : scheme.input_format->name();
}

const Form* FormOf(const LayerScheme& scheme) {
  const auto found = std::find_if(kForms.begin(), kForms.end(), [&](const Form& form) {
    return form.weights == scheme.weight_format->name() && form.inputs == InputName(scheme);
  });
  return found == kForms.end() ? nullptr : &*found;
}

// Names that Ascend's models give the modules that they make of others.
const std::map<std::string, std::string>& MergedNames() {
  static const std::map<std::string, std::string> kNames = {{"qkv_proj", "merged_qkv_proj"},
                                                            {"gate_up_proj", "gate_up_proj"}};
  return kNames;
}
// Of layers that stay, also the name that all experts of a block have together.
const std::map<std::string, std::string>& KeptNames() {
  static const std::map<std::string, std::string> kNames = [] {
    std::map<std::string, std::string> names = MergedNames();
    names.emplace("experts", "experts");
    return names;
  }();
  return kNames;
}

// DeepSeek-V4 as it is published, with names of its own.
bool HasNativeNames(const Checkpoint& source) {
  return source.Find("layers.0.attn.wq_a.weight") != nullptr;
}

std::string ScaleName(const QuantizedLayer& layer) {
  const bool plain =
      HasNativeNames(layer.source) || layer.scheme.weight_format->name() == kFp8Blocks;
  return layer.layer.name + (plain ? ".scale" : ".weight_scale");
}

class Cann : public CheckpointLayout {
 public:
  std::string_view description() const override {
    return "Ascend's inference recipes (cann-recipes-infer): HiF8 with converted inputs";
  }

  std::optional<LayoutProblem> Problem(const QuantizedLayer& layer) const override {
    const LayerScheme& scheme = layer.scheme;
    const bool expert = IsExpert(layer.layer.name);
    const Form* const form = FormOf(scheme);
    const bool native = form != nullptr && layer.uniform && !form->native.empty();
    if (layer.layer.op == "Conv") {
      return LayoutProblem{"quantized convolutions", "keep",
                           "keep the convolutions, or the layout compressed-tensors"};
    }
    if (layer.layer.op != "Linear") {
      return LayoutProblem{"quantized embeddings", "embeddings", "embeddings: false"};
    }
    if (layer.weight().entry->shape.size() != 2) {
      return LayoutProblem{"all experts of a block in one tensor", "keep",
                           "keep the experts, or the layout compressed-tensors"};
    }
    if (!scheme.input_dynamic) {
      return LayoutProblem{"static activation scales", "activations.rule",
                           InputName(scheme) == "int8" ? "activations.granularity: token"
                                                       : "activations.rule: cast"};
    }
    if (scheme.input_format == nullptr) {
      return LayoutProblem{"weight-only layers, which its loader has no class for",
                           "activations.rule",
                           "activations.rule: cast, or the layout compressed-tensors"};
    }
    if (form == nullptr || !(native || (expert ? form->experts : form->linear))) {
      return WrongFormat(scheme, expert);
    }
    if (form->native.empty() && !scheme.weight_format->packed()) {
      if (scheme.weight_granularity != form->weight_granularity) {
        return LayoutProblem{"weights of " + std::string(scheme.weight_format->name()) +
                                 " with scales per " +
                                 std::string(NameOf(scheme.weight_granularity)),
                             "weights.granularity", "weights.granularity: channel"};
      }
      if (scheme.input_granularity != form->input_granularity) {
        const std::string wanted(NameOf(form->input_granularity));
        return LayoutProblem{
            "inputs in " + std::string(InputName(scheme)) + " with scales per " +
                std::string(NameOf(scheme.input_granularity)),
            "activations.granularity",
            wanted == "tensor" ? "activations.rule: cast" : "activations.granularity: " + wanted};
      }
    }
    if (form->weight_granularity == kGroup && scheme.weight_tile.rows > 1) {
      return LayoutProblem{"MX formats in blocks", "weights.granularity",
                           "weights.granularity: group"};
    }
    return WrongShape(layer, *form);
  }

  // Its models read a scale of latent attention's compressed vector in INT8, and no other.
  std::optional<LayoutProblem> CacheProblem(const Layer& cache, std::string_view format,
                                            bool scaled) const override {
    if (cache.name.ends_with(".kv_latent") && format == "int8" && scaled) return {};
    return LayoutProblem{
        "the cache '" + cache.name.substr(cache.name.rfind('.') + 1) + "' in " +
            std::string(format) + (scaled ? " with a scale" : ""),
        "kv_cache.rule",
        "kv_cache.rule: off; of latent attention kv_cache.format: int8 with --keep 'k_rope$'"};
  }

  bool NeedsBf16Scales(std::string_view format) const override {
    return format == "hif8" || format == "int8";
  }

  bool HoldsBias(const LayerScheme& scheme) const override { return AddsBiasFirst(scheme); }

  std::vector<OutputTensor> Tensors(const QuantizedLayer& layer) const override {
    std::vector<OutputTensor> tensors = {CodesTensor(layer, layer.layer.name + ".weight"),
                                         ScalesTensor(layer, ScaleName(layer))};
    const CheckpointTensor* const bias = layer.bias();
    if (bias != nullptr && AddsBiasFirst(layer.scheme)) {
      const auto divide = [&source = layer.source, bias](const EncodedWeight& encoded) {
        std::vector<float> values(ElementCount(bias->entry->shape));
        source.ReadRows(*bias, 0, static_cast<int64_t>(values.size()), values.data());
        for (size_t i = 0; i < values.size(); ++i) {
          values[i] /= encoded.scales[i % encoded.scales.size()];
        }
        return NumberBytes(values, DType::kF32);
      };
      tensors.push_back(
          MadeTensor(layer, bias->name(), DType::kF32, bias->entry->shape, divide, bias));
    }
    return tensors;
  }

  std::string CacheScaleName(const std::string& cache) const override {
    return Renamed(cache, "ckv_scale");
  }

  std::vector<TextFile> Files(const Checkpoint& source, const CheckpointPlan& plan,
                              const std::vector<OutputShard>& /*shards*/) const override {
    const std::vector<SchemeGroup> groups = GroupLayers(source, plan.layers);
    OrderedJson json;
    const Form* const form = groups.size() == 1 ? FormOf(groups[0].scheme) : nullptr;
    if (form != nullptr && !form->native.empty()) {
      json["quant_method"] = form->native;
      json["activation_scheme"] = "dynamic";
      if (groups[0].scheme.weight_format->name() == kFp8Blocks)
        json["weight_block_size"] = {128, 128};
      json["ignored_layers"] = KeptLinears(source, plan.layers, KeptNames());
    } else {
      AddGroups(source, plan, groups, &json);
    }
    if (plan.cache_format != nullptr) AddCache("int", &json);
    json["layout"] = NameOf(LayoutKind::kCann);
    return {{"config.json", ConfigText(source, json)}};
  }

 private:
  static LayoutProblem WrongFormat(const LayerScheme& scheme, bool expert) {
    const std::string what = std::string(expert ? "experts" : "layers") + " of " +
                             std::string(scheme.weight_format->name()) + " with inputs in " +
                             std::string(InputName(scheme));
    return {what, "weights.format",
            expert ? "for experts mxfp4 (--recipe w4a8-moe) or int8 with granularity token"
                   : "hif8 with activations.rule: cast, int8 with granularity token, mxfp8, "
                     "mxfp4, or fp8_e4m3_block, weights and activations alike"};
  }

  // What its operators ask of shapes.
  static std::optional<LayoutProblem> WrongShape(const QuantizedLayer& layer, const Form& form) {
    const Shape& shape = layer.weight().entry->shape;
    if (form.weight_granularity == kGroup && ((shape[1] + 31) / 32) % 2 != 0) {
      return LayoutProblem{std::to_string(shape[1]) +
                               " inputs in MX formats, which are no whole pairs of groups of 32",
                           "weights.format", "keep these layers, or hif8 or int8 for them"};
    }
    // Parts of a module one below the other, whose scales would overlap.
    const std::string& name = layer.layer.name;
    const bool merged = !layer.layer.fused.empty() && !name.ends_with("down_proj");
    if (form.weights == kFp8Blocks && merged && shape[0] % 128 != 0) {
      return LayoutProblem{
          std::to_string(shape[0]) + " rows in FP8 blocks, which are no whole blocks of 128",
          "weights.format", "keep these layers, or another format for them"};
    }
    return {};
  }

  static void AddCache(const char* type, OrderedJson* json) {
    (*json)["kv_cache_scheme"] = {{"num_bits", 8},
                                  {"type", type},
                                  {"strategy", "tensor"},
                                  {"dynamic", false},
                                  {"symmetric", true}};
  }

  static void AddGroups(const Checkpoint& source, const CheckpointPlan& plan,
                        const std::vector<SchemeGroup>& groups, OrderedJson* json) {
    const bool native_names = HasNativeNames(source);
    bool floats = false;
    bool hif8 = false;
    OrderedJson listed = OrderedJson::object();
    for (const SchemeGroup& group : groups) {
      floats |= group.scheme.weight_format->name() != "int8";
      hif8 |= group.scheme.weight_format->name() == "hif8";
      const OrderedJson targets = Targets(source, group, listed.empty(), native_names);
      if (targets.empty()) continue;
      listed["group_" + std::to_string(listed.size())] = {
          {"targets", targets},
          {"weights", WeightArguments(group.scheme)},
          {"input_activations", InputArguments(group.scheme)},
          {"output_activations", nullptr},
          {"activation_use_clip", false}};
      // The recipes do not read it; it keeps others from taking HiF8 for FP8.
      if (group.scheme.weight_format->name() == "hif8") listed.back()["format"] = "hif8-quantized";
    }
    (*json)["quant_method"] = "compressed-tensors";
    (*json)["format"] = floats ? "float-quantized" : "int-quantized";
    (*json)["quantization_status"] = "compressed";
    (*json)["global_compression_ratio"] = 1;
    (*json)["config_groups"] = listed;
    (*json)["ignore"] = KeptLinears(source, plan.layers, KeptNames());
    (*json)["kv_cache_scheme"] = nullptr;
    if (native_names) {
      (*json)["weight_block_size"] = {128, 128};
      // Its runtime converts both caches with scale 1.
      for (const char* cache : {"kv_cache_scheme", "li_cache_scheme"}) {
        (*json)[cache] = {{"num_bits", 8}, {"type", "float"}};
      }
    }
    if (hif8) (*json)["number_format"] = "hif8";
  }

  // A class of modules where that is enough: there must be a group for Linear.
  static OrderedJson Targets(const Checkpoint& source, const SchemeGroup& group, bool first,
                             bool native_names) {
    const auto expert = [&](int layer) {
      return IsExpert(source.layers()[static_cast<size_t>(layer)].name);
    };
    const bool experts = std::any_of(group.layers.begin(), group.layers.end(), expert);
    if (first) {
      const bool others = !std::all_of(group.layers.begin(), group.layers.end(), expert);
      return experts && !others ? OrderedJson{"Linear", "MoEGMM"} : OrderedJson{"Linear"};
    }
    OrderedJson targets = OrderedJson::array();
    if (experts) targets.push_back("MoEGMM");
    std::vector<int> rest;
    std::remove_copy_if(group.layers.begin(), group.layers.end(), std::back_inserter(rest), expert);
    // Of DeepSeek-V4 the class knows that shared experts beside HiF8 are MXFP8.
    if (native_names) return targets;
    for (const auto& target : LayerTargets(source, rest, MergedNames())) targets.push_back(target);
    return targets;
  }
};

}  // namespace

const CheckpointLayout& CannLayout() {
  static const Cann layout;
  return layout;
}

}  // namespace hif8
