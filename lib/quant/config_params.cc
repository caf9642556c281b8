#include "lib/quant/config_params.h"

#include <array>
#include <type_traits>
#include <utility>

#include "lib/core/error.h"

namespace hif8 {
namespace {

constexpr std::array kAllGranularities = {Granularity::kTensor, Granularity::kChannel,
                                          Granularity::kToken, Granularity::kBlock,
                                          Granularity::kGroup};

// Enumerations are text in recipes.
std::string Name(Granularity value) { return std::string(GranularityName(value)); }
std::string Name(ScaleDType value) { return value == ScaleDType::kBF16 ? "bf16" : "fp32"; }
void FromName(const std::string& name, Granularity& value) {
  for (const Granularity g : kAllGranularities) {
    if (GranularityName(g) == name) value = g;
  }
}
void FromName(const std::string& name, ScaleDType& value) {
  value = name == "bf16" ? ScaleDType::kBF16 : ScaleDType::kF32;
}

// `field` gives the member of a configuration, const or not.
template <typename F>
Param Make(std::string key, ParamKind kind, std::string help, F field) {
  using T = std::remove_cvref_t<decltype(field(std::declval<QuantConfig&>()))>;
  Param param;
  param.key = std::move(key);
  param.kind = kind;
  param.help = std::move(help);
  param.get = [field](const QuantConfig& config) -> ParamValue {
    if constexpr (std::is_enum_v<T>) {
      return Name(field(config));
    } else if constexpr (std::is_same_v<T, std::optional<int>>) {
      return static_cast<int64_t>(field(config).value_or(0));
    } else {
      return field(config);
    }
  };
  param.set = [field](QuantConfig& config, const ParamValue& value) {
    if constexpr (std::is_enum_v<T>) {
      FromName(std::get<std::string>(value), field(config));
    } else if constexpr (std::is_same_v<T, std::optional<int>>) {
      field(config) = static_cast<int>(std::get<int64_t>(value));
    } else {
      field(config) = std::get<T>(value);
    }
  };
  return param;
}

Param Choice(Param param, std::vector<std::string> choices) {
  param.choices = std::move(choices);
  return param;
}
Param Range(Param param, double min, double max, bool above_min = false) {
  param.min = min;
  param.max = max;
  param.above_min = above_min;
  return param;
}
Param Length(Param param, size_t length) {
  param.length = length;
  return param;
}

constexpr double kMany = Param::kMany;
constexpr double kLargestFloat = std::numeric_limits<float>::max();

// The keys that all kinds of operands have. `operand` gives the OperandConfig of a configuration.
template <typename F>
void AddOperand(std::vector<Param>& params, const std::string& name, ParamKind rule_kind,
                std::vector<std::string> granularities, F operand) {
  const std::string key = name + ".";
  Param format = Make(
      key + "format", ParamKind::kFormat,
      "number format", [=](auto& c) -> auto& { return operand(c).format; });
  // A target belongs to a format: another format starts from its own default again.
  format.set = [=](QuantConfig& config, const ParamValue& value) {
    OperandConfig& o = operand(config);
    if (o.format == std::get<std::string>(value)) return;
    o.format = std::get<std::string>(value);
    o.target = 0;
    o.guard.reset();
  };
  params.push_back(std::move(format));
  if (!granularities.empty()) {
    params.push_back(
        Choice(Make(
                   key + "granularity", ParamKind::kChoice, "which elements share a scale",
                   [=](auto& c) -> auto& { return operand(c).granularity; }),
               std::move(granularities)));
  }
  Param rule = Make(
      key + "rule", rule_kind,
      "how the scale is chosen", [=](auto& c) -> auto& { return operand(c).rule; });
  if (rule_kind == ParamKind::kChoice) rule.choices = {"off", "max", "percentile", "mse"};
  params.push_back(std::move(rule));

  Param target = Range(Make(
                           key + "target", ParamKind::kNumber,
                           "magnitude that the reference is mapped to; without it the format's own",
                           [=](auto& c) -> auto& { return operand(c).target; }),
                       0, kLargestFloat, true);
  target.set = [=](QuantConfig& config, const ParamValue& value) {
    operand(config).target = std::get<double>(value);
    operand(config).guard.reset();
  };
  params.push_back(std::move(target));
  Param guard = Range(Make(
                          key + "guard", ParamKind::kInteger,
                          "instead of target: binades kept free above the reference",
                          [=](auto& c) -> auto& { return operand(c).guard; }),
                      0, 30);
  guard.set = [=](QuantConfig& config, const ParamValue& value) {
    operand(config).guard = static_cast<int>(std::get<int64_t>(value));
    operand(config).target = 0;
  };
  guard.input_only = true;
  params.push_back(std::move(guard));
  params.push_back(Range(
      Make(
          key + "percentile", ParamKind::kNumber, "percent of magnitudes, for rule percentile",
          [=](auto& c) -> auto& { return operand(c).percentile; }),
      0, 100, true));
  params.push_back(Make(
      key + "power_of_two", ParamKind::kBool,
      "round scales up to a power of two", [=](auto& c) -> auto& {
        return operand(c).power_of_two;
      }));
}

void AddOperands(std::vector<Param>& params) {
  const auto weights = [](auto& c) -> auto& { return c.weights; };
  AddOperand(params, "weights", ParamKind::kWeightRule, {"tensor", "channel", "block", "group"},
             weights);
  params.push_back(
      Choice(Make(
                 "weights.scale_dtype", ParamKind::kChoice, "type in which scales are stored",
                 [](auto& c) -> auto& { return c.weights.scale_dtype; }),
             {"fp32", "bf16"}));
  AddOperand(
      params, "activations", ParamKind::kActivationRule, {"tensor", "token", "block", "group"},
      [](auto& c) -> auto& { return c.activations; });
  params.push_back(Make(
      "activations.clip", ParamKind::kBool, "clip values to the target on either side first",
      [](auto& c) -> auto& { return c.activations.clip; }));
  AddOperand(
      params, "kv_cache", ParamKind::kChoice, {}, [](auto& c) -> auto& { return c.kv_cache; });
}

void AddRules(std::vector<Param>& params) {
  params.push_back(Choice(Make(
                              "delayed.rule", ParamKind::kChoice, "estimate of the next amax",
                              [](auto& c) -> auto& { return c.delayed.rule; }),
                          {"most_recent", "exp_smooth", "max", "current"}));
  params.push_back(
      Range(Make(
                "delayed.history", ParamKind::kInteger, "measurements in the window of max",
                [](auto& c) -> auto& { return c.delayed.history; }),
            1, 1e6));
  params.push_back(
      Range(Make(
                "delayed.interval", ParamKind::kInteger, "samples between two measurements",
                [](auto& c) -> auto& { return c.delayed.interval; }),
            1, 1e6));
  params.push_back(
      Range(Make(
                "delayed.alpha", ParamKind::kNumber, "weight of the newest amax in exp_smooth",
                [](auto& c) -> auto& { return c.delayed.alpha; }),
            0, 1, true));
  params.push_back(Choice(Make(
                              "mse.objective", ParamKind::kChoice, "what rule mse keeps small",
                              [](auto& c) -> auto& { return c.mse.objective; }),
                          {"tensor", "output"}));
  params.push_back(Range(
      Make(
          "mse.steps_per_octave", ParamKind::kInteger, "candidate scales between two powers of two",
          [](auto& c) -> auto& { return c.mse.steps_per_octave; }),
      1, 1000));
  params.push_back(Range(Make(
                             "mse.octaves", ParamKind::kNumber,
                             "how far from the scale of max candidates go, each way",
                             [](auto& c) -> auto& { return c.mse.octaves; }),
                         0, 16));
  params.push_back(
      Range(Make(
                "experts.min_rows", ParamKind::kInteger, "an expert that saw fewer rows is rare",
                [](auto& c) -> auto& { return c.experts.min_rows; }),
            0, kMany));
  params.push_back(
      Choice(Make(
                 "experts.rare", ParamKind::kChoice,
                 "rare experts share statistics, stay in high precision, or are an error",
                 [](auto& c) -> auto& { return c.experts.rare; }),
             {"pooled", "keep", "error"}));
  params.push_back(Make(
      "experts.route_all", ParamKind::kBool,
      "send every row through every expert, for statistics only",
      [](auto& c) -> auto& { return c.experts.route_all; }));
}

void AddSelection(std::vector<Param>& params) {
  params.push_back(Range(Make(
                             "high_precision_layers", ParamKind::kInteger,
                             "first and last transformer blocks that stay as they are",
                             [](auto& c) -> auto& { return c.high_precision_layers; }),
                         0, 1e6));
  params.push_back(Make(
      "blocks", ParamKind::kPattern,
      "ONNX: regular expression whose group is a layer's block number",
      [](auto& c) -> auto& { return c.blocks; }));
  params.push_back(Choice(
      Make(
          "propagate", ParamKind::kChoice, "network that the statistics of later blocks come from",
          [](auto& c) -> auto& { return c.propagate; }),
      {"original", "quantized"}));
  params.push_back(Make(
      "keep", ParamKind::kPatternList, "regular expressions: layers that stay in high precision",
      [](auto& c) -> auto& { return c.keep; }));
  params.push_back(Make(
      "only", ParamKind::kPatternList, "regular expressions: quantize these layers alone",
      [](auto& c) -> auto& { return c.only; }));
}

void AddData(std::vector<Param>& params) {
  params.push_back(Range(Make(
                             "data.samples", ParamKind::kCountOrAll, "samples to use",
                             [](auto& c) -> auto& { return c.data.samples; }),
                         1, kMany));
  params.push_back(
      Range(Make(
                "data.sequence_length", ParamKind::kInteger, "tokens in a sample of text",
                [](auto& c) -> auto& { return c.data.sequence_length; }),
            2, 1e9));
  params.push_back(Range(Make(
                             "data.batch", ParamKind::kCountOrAll,
                             "samples in one run where the model leaves its batch open; all: files "
                             "are fed as they are",
                             [](auto& c) -> auto& { return c.data.batch; }),
                         1, 1e6));
  params.push_back(Make(
      "data.drop_last", ParamKind::kBool, "drop the samples that do not fill a fixed batch",
      [](auto& c) -> auto& { return c.data.drop_last; }));
  params.push_back(Length(Range(Make(
                                    "data.image.size", ParamKind::kIntegerList, "height and width",
                                    [](auto& c) -> auto& { return c.data.image.size; }),
                                1, 65536),
                          2));
  params.push_back(Length(Make(
                              "data.image.mean", ParamKind::kNumberList,
                              "subtracted from values between 0 and 1, per channel",
                              [](auto& c) -> auto& { return c.data.image.mean; }),
                          3));
  params.push_back(
      Length(Range(Make(
                       "data.image.std", ParamKind::kNumberList, "then divided by, per channel",
                       [](auto& c) -> auto& { return c.data.image.std; }),
                   0, kLargestFloat, true),
             3));
  params.push_back(Choice(Make(
                              "data.image.layout", ParamKind::kChoice, "order of the dimensions",
                              [](auto& c) -> auto& { return c.data.image.layout; }),
                          {"nchw", "nhwc"}));
  params.push_back(Choice(Make(
                              "data.image.channels", ParamKind::kChoice, "order of the channels",
                              [](auto& c) -> auto& { return c.data.image.channels; }),
                          {"rgb", "bgr", "gray"}));
}

std::vector<Param> BuildTable() {
  std::vector<Param> params;
  AddOperands(params);
  params.push_back(Make(
      "attention", ParamKind::kBool, "also quantize products of two activations (Q, K, P, V)",
      [](auto& c) -> auto& { return c.attention; }));
  params.push_back(Make(
      "embeddings", ParamKind::kBool, "also quantize embedding tables",
      [](auto& c) -> auto& { return c.embeddings; }));
  params.push_back(Make(
      "lm_head", ParamKind::kBool, "also quantize the language model head",
      [](auto& c) -> auto& { return c.lm_head; }));
  AddRules(params);
  AddSelection(params);
  AddData(params);
  return params;
}

}  // namespace

const std::vector<Param>& RecipeParams() {
  static const std::vector<Param> kParams = BuildTable();
  return kParams;
}

size_t ParamIndex(std::string_view key) {
  const std::vector<Param>& params = RecipeParams();
  size_t i = 0;
  while (i < params.size() && params[i].key != key) ++i;
  return i;
}

const Param* FindParam(std::string_view key) {
  const size_t i = ParamIndex(key);
  return i < RecipeParams().size() ? &RecipeParams()[i] : nullptr;
}

std::string_view GroupHelp(std::string_view group) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kGroups = {{
      {"weights", "constant weights of the layers"},
      {"activations", "inputs of the layers"},
      {"kv_cache", "cached keys and values of attention"},
      {"delayed", "used by rule delayed"},
      {"mse", "used by rule mse"},
      {"experts", "experts that saw little of the calibration data"},
      {"data", "calibration and evaluation data"},
      {"data.image", "how images become a tensor"},
  }};
  for (const auto& [name, help] : kGroups) {
    if (name == group) return help;
  }
  return {};
}

void ApplySetting(QuantConfig& config, const ParamSetting& setting) {
  const Param* param = FindParam(setting.key);
  if (param == nullptr) throw Error(ErrorCode::kBug, "no recipe key " + setting.key);
  param->set(config, setting.value);
}

}  // namespace hif8
