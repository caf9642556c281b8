// AscendV1: quant_model_description.json, as msModelSlim writes it and vllm-ascend and MindIE read
// it.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "lib/model/safetensors/checkpoint_layout.h"
#include "lib/model/safetensors/config_groups.h"
#include "lib/model/safetensors/fused_modules.h"

namespace hif8 {
namespace {

constexpr std::string_view kFull = "full precision";  // of inputs that stay as they are

// How the description calls a scheme.
struct Form {
  std::string_view weights, inputs;  // number formats
  bool dynamic;
  std::string_view type;
  bool experts;
  bool offsets;     // zeros that stand for offsets of the weight's codes
  bool even_pairs;  // inputs are whole pairs of groups of 32, also of a Linear
};
// clang-format off
constexpr std::array<Form, 7> kForms = {{
    {"int8",     "int8",     false, "W8A8",            false, false, false},
    {"int8",     "int8",     true,  "W8A8_DYNAMIC",    true,  true,  false},
    {"int8",     kFull,      true,  "W8A16",           false, true,  false},
    {"fp8_e4m3", "fp8_e4m3", true,  "W8A8FP8_DYNAMIC", true,  true,  false},
    {"mxfp8",    "mxfp8",    true,  "W8A8_MXFP8",      true,  false, false},
    {"mxfp4",    "mxfp4",    true,  "W4A4_MXFP4",      true,  false, false},
    {"mxfp4",    "mxfp8",    true,  "W4A8_MXFP",       true,  false, true},
}};
// clang-format on

std::string_view InputName(const LayerScheme& scheme) {
  return scheme.input_format == nullptr ? kFull : scheme.input_format->name();
}

const Form* FormOf(const LayerScheme& scheme) {
  const auto found = std::find_if(kForms.begin(), kForms.end(), [&](const Form& form) {
    return form.weights == scheme.weight_format->name() && form.inputs == InputName(scheme) &&
           form.dynamic == scheme.input_dynamic;
  });
  return found == kForms.end() ? nullptr : &*found;
}

bool IsMx(const LayerScheme& scheme) { return scheme.scale_dtype == DType::kU8; }

// The scales that integers of products are multiplied by; of fp16 models as int64 with their bits.
std::vector<std::byte> DequantizationScales(const EncodedWeight& encoded, float input_scale,
                                            bool bits) {
  std::vector<float> scales = encoded.scales;
  for (float& scale : scales) scale *= input_scale;
  if (!bits) return NumberBytes(scales, DType::kF32);
  std::vector<std::byte> bytes(scales.size() * sizeof(int64_t));
  for (size_t i = 0; i < scales.size(); ++i) {
    std::memcpy(bytes.data() + i * sizeof(int64_t), &scales[i], sizeof(float));  // little-endian
  }
  return bytes;
}

class AscendV1 : public CheckpointLayout {
 public:
  std::string_view description() const override {
    return "vllm-ascend, MindIE and msModelSlim: INT8, FP8 and MX with "
           "quant_model_description.json";
  }

  std::optional<LayoutProblem> Problem(const QuantizedLayer& layer) const override {
    const LayerScheme& scheme = layer.scheme;
    const bool expert = IsExpert(layer.layer.name);
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
    if (scheme.weight_format->name() == "hif8" || InputName(scheme) == "hif8") {
      return LayoutProblem{"HiF8, which has no type in its descriptions", "weights.format",
                           "the layouts cann and compressed-tensors, or int8, fp8_e4m3, mxfp8 or "
                           "mxfp4 for weights and activations"};
    }
    const Form* const form = FormOf(scheme);
    if (form == nullptr || (expert && !form->experts)) return WrongForm(scheme, expert);
    if (!IsMx(scheme) && scheme.weight_granularity != Granularity::kChannel) {
      return LayoutProblem{
          "weights with scales per " + std::string(NameOf(scheme.weight_granularity)),
          "weights.granularity", "weights.granularity: channel"};
    }
    if (!IsMx(scheme) && form->dynamic && scheme.input_format != nullptr &&
        scheme.input_granularity != Granularity::kToken) {
      return WrongForm(scheme, expert);
    }
    if (IsMx(scheme) && scheme.weight_tile.rows > 1) {
      return LayoutProblem{"MX formats in blocks", "weights.granularity",
                           "weights.granularity: group"};
    }
    const int64_t inputs = layer.weight().entry->shape[1];
    if (IsMx(scheme) && (expert || form->even_pairs) && inputs % 64 != 0) {
      return LayoutProblem{std::to_string(inputs) +
                               " inputs in MX formats, which are no whole pairs of groups of 32",
                           "weights.format", "keep these layers, or int8 for them"};
    }
    return {};
  }

  std::optional<LayoutProblem> CacheProblem(const Layer& /*cache*/, std::string_view /*format*/,
                                            bool /*scaled*/) const override {
    return LayoutProblem{"a quantized cache", "kv_cache.rule", "kv_cache.rule: off"};
  }

  bool NeedsBf16Scales(std::string_view format) const override { return format == "int8"; }

  std::vector<OutputTensor> Tensors(const QuantizedLayer& layer) const override {
    const std::string& name = layer.layer.name;
    LayerScheme scheme = layer.scheme;
    if (!IsMx(scheme)) scheme.scale_dtype = DType::kF32;
    const QuantizedLayer written{layer.source, layer.layer, scheme, layer.uniform,
                                 layer.input_scale};
    std::vector<OutputTensor> tensors = {CodesTensor(written, name + ".weight"),
                                         ScalesTensor(written, name + ".weight_scale")};
    const Form& form = *FormOf(scheme);
    if (form.offsets) {
      tensors.push_back(
          ValueTensor(name + ".weight_offset", DType::kF32, tensors[1].entry.shape, {0.0F}));
    }
    if (!form.dynamic) AddStatic(written, &tensors);
    return tensors;
  }

  std::vector<TextFile> Files(const Checkpoint& source, const CheckpointPlan& plan,
                              const std::vector<OutputShard>& shards) const override {
    std::map<int, std::string_view> type_of_weight;
    std::map<std::string_view, size_t> layers;
    bool mx = false;
    for (const auto& [index, scheme] : plan.layers) {
      const std::string_view type = FormOf(scheme)->type;
      type_of_weight[source.layers()[static_cast<size_t>(index)].weight] = type;
      ++layers[type];
      mx |= IsMx(scheme);
    }
    const auto most =
        std::max_element(layers.begin(), layers.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    // Written as text: an ordered object takes quadratic time for a hundred thousand names.
    std::string text = "{\n  \"version\": \"1.0.0\",\n  \"model_quant_type\": \"" +
                       std::string(most == layers.end() ? "FLOAT" : most->first) + "\"";
    if (mx) text += ",\n  \"group_size\": 32";
    std::string_view type = "FLOAT";
    for (const OutputShard& shard : shards) {
      for (const OutputTensor& tensor : shard.tensors) {
        // What stands behind codes without a source of its own belongs to them.
        if (tensor.kind != OutputTensor::Kind::kValues) {
          const auto found = type_of_weight.find(tensor.weight);
          type = found == type_of_weight.end() ? "FLOAT" : found->second;
        }
        text += ",\n  " + OrderedJson(tensor.entry.name).dump() + ": \"" + std::string(type) + "\"";
      }
    }
    return {{"config.json", ConfigText(source, nullptr)},
            {"quant_model_description.json", text + "\n}\n"}};
  }

 private:
  static LayoutProblem WrongForm(const LayerScheme& scheme, bool expert) {
    std::string inputs = " static";
    if (scheme.input_format == nullptr) {
      inputs.clear();
    } else if (scheme.input_dynamic) {
      inputs = " per " + std::string(NameOf(scheme.input_granularity));
    }
    return {std::string(expert ? "experts" : "layers") + " of " +
                std::string(scheme.weight_format->name()) + " with inputs in " +
                std::string(InputName(scheme)) + inputs,
            scheme.input_dynamic && scheme.input_format != nullptr ? "weights.format"
                                                                   : "activations.rule",
            "int8 or fp8_e4m3 with activations.granularity: token, mxfp8, or mxfp4" +
                std::string(expert ? "" : "; int8 may have static inputs or be weight-only")};
  }

  // W8A8: (codes of x . codes of w + quant_bias) x deq_scale.
  static void AddStatic(const QuantizedLayer& layer, std::vector<OutputTensor>* tensors) {
    const std::string& name = layer.layer.name;
    const float input_scale = *layer.input_scale;
    const int64_t rows = layer.weight().entry->shape[0];
    const CheckpointTensor* const bias = layer.bias();
    const bool bits = layer.source.own_dtype() == DType::kF16;
    tensors->push_back(MadeTensor(layer, name + ".deq_scale", bits ? DType::kI64 : DType::kF32,
                                  {rows}, [=](const EncodedWeight& encoded) {
                                    return DequantizationScales(encoded, input_scale, bits);
                                  }));
    const auto quant_bias = [&source = layer.source, bias, input_scale,
                             rows](const EncodedWeight& encoded) {
      std::vector<float> values(static_cast<size_t>(rows));
      if (bias != nullptr) source.ReadRows(*bias, 0, rows, values.data());
      for (size_t i = 0; i < values.size(); ++i) values[i] /= encoded.scales[i] * input_scale;
      return NumberBytes(values, DType::kI32);
    };
    tensors->push_back(
        MadeTensor(layer, name + ".quant_bias", DType::kI32, {rows}, quant_bias, bias));
    tensors->push_back(ValueTensor(name + ".input_scale", DType::kF32, {1}, {input_scale}));
    tensors->push_back(ValueTensor(name + ".input_offset", DType::kF32, {1}, {0.0F}));
  }
};

}  // namespace

const CheckpointLayout& AscendV1Layout() {
  static const AscendV1 layout;
  return layout;
}

}  // namespace hif8
