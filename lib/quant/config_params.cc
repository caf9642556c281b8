#include "lib/quant/config_params.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/member_path.h"

namespace hif8 {
namespace {

// Members of a fixed number of values are lists in recipes.
template <typename T>
struct IsArray : std::false_type {};
template <typename E, size_t n>
struct IsArray<std::array<E, n>> : std::true_type {};

template <typename T>
constexpr ParamKind KindOf() {
  if constexpr (std::is_enum_v<T>) return ParamKind::kChoice;
  if constexpr (std::is_same_v<T, bool>) return ParamKind::kBool;
  if constexpr (std::is_same_v<T, double>) return ParamKind::kNumber;
  if constexpr (std::is_same_v<T, std::array<double, 3>>) return ParamKind::kNumberList;
  if constexpr (IsArray<T>::value) return ParamKind::kIntegerList;
  if constexpr (std::is_same_v<T, std::vector<LayerPattern>>) return ParamKind::kPatternList;
  return ParamKind::kInteger;
}

// Fields of which each has its row in the table.
class Table {
 public:
  // Adds the row of the field that `field` gives.
  template <typename F>
  Table& Add(std::string key, F field, std::string help) {
    using T = std::remove_cvref_t<decltype(field(std::declval<QuantConfig&>()))>;
    Param& param = params_.emplace_back();
    param.key = std::move(key);
    param.kind = KindOf<T>();
    param.help = std::move(help);
    if constexpr (std::is_enum_v<T>) param.choices = NamesOf<T>();
    if constexpr (IsArray<T>::value) param.length = std::tuple_size_v<T>;
    param.get = [field](const QuantConfig& config) { return Get(field(config)); };
    param.set = [field](QuantConfig& config, const ParamValue& value) {
      Set(value, field(config));
    };
    return *this;
  }
  // These concern the row that was added last.
  Table& Kind(ParamKind kind) {
    params_.back().kind = kind;
    return *this;
  }
  Table& Within(double min, double max) {
    params_.back().min = min;
    params_.back().max = max;
    return *this;
  }
  Table& Above(double min, double max) {
    params_.back().above_min = true;
    return Within(min, max);
  }
  // Some values of an enumeration only.
  Table& Choices(std::vector<std::string> choices) {
    params_.back().choices = std::move(choices);
    return *this;
  }
  // Calls `also` whenever the field has been set, OnChange only when it had another value.
  template <typename F>
  Table& Then(F also) {
    params_.back().set = [set = params_.back().set, also](QuantConfig& config,
                                                          const ParamValue& value) {
      set(config, value);
      also(config);
    };
    return *this;
  }
  template <typename F>
  Table& OnChange(F also) {
    params_.back().set = [param = params_.back(), also](QuantConfig& config,
                                                        const ParamValue& value) {
      if (param.get(config) == value) return;
      param.set(config, value);
      also(config);
    };
    return *this;
  }
  Table& InputOnly() {
    params_.back().input_only = true;
    return *this;
  }

  std::vector<Param> Take() { return std::move(params_); }

 private:
  template <typename T>
  static ParamValue Get(const T& field) {
    if constexpr (std::is_enum_v<T>) {
      return std::string(NameOf(field));
    } else if constexpr (IsArray<T>::value) {
      return std::vector<typename T::value_type>(field.begin(), field.end());
    } else if constexpr (std::is_same_v<T, std::optional<int>>) {
      return static_cast<int64_t>(field.value_or(0));
    } else {
      return field;
    }
  }
  template <typename T>
  static void Set(const ParamValue& value, T& field) {
    if constexpr (std::is_enum_v<T>) {
      field = FromName<T>(std::get<std::string>(value)).value();
    } else if constexpr (IsArray<T>::value) {
      const auto& values = std::get<std::vector<typename T::value_type>>(value);
      std::copy_n(values.begin(), field.size(), field.begin());
    } else if constexpr (std::is_same_v<T, std::optional<int>>) {
      field = static_cast<int>(std::get<int64_t>(value));
    } else {
      field = std::get<T>(value);
    }
  }

  std::vector<Param> params_;
};

constexpr double kMany = Param::kMany;
constexpr double kLargestFloat = std::numeric_limits<float>::max();

// Adds the keys that all kinds of operands have; `granularities` is empty where there is no choice.
void AddOperand(const std::string& name, OperandConfig QuantConfig::*operand, ParamKind rule_kind,
                std::vector<std::string> granularities, Table* table) {
  const std::string key = name + ".";
  using O = OperandConfig;
  // A target belongs to a format: another format starts from its own default again.
  table->Add(key + "format", At(operand, &O::format), "number format")
      .Kind(ParamKind::kFormat)
      .OnChange([operand](QuantConfig& config) {
        (config.*operand).target = 0;
        (config.*operand).guard.reset();
      });
  if (!granularities.empty()) {
    table->Add(key + "granularity", At(operand, &O::granularity), "which elements share a scale")
        .Choices(std::move(granularities));
  }
  table->Add(key + "rule", At(operand, &O::rule), "how the scale is chosen").Kind(rule_kind);
  table
      ->Add(key + "target", At(operand, &O::target),
            "magnitude that the reference is mapped to; without it the format's own")
      .Above(0, kLargestFloat)
      .Then([operand](QuantConfig& config) { (config.*operand).guard.reset(); });
  table
      ->Add(key + "guard", At(operand, &O::guard),
            "instead of target: binades kept free above the reference")
      .Within(0, 30)
      .Then([operand](QuantConfig& config) { (config.*operand).target = 0; })
      .InputOnly();
  table
      ->Add(key + "percentile", At(operand, &O::percentile),
            "percent of magnitudes, for rule percentile")
      .Above(0, 100);
  table->Add(key + "power_of_two", At(operand, &O::power_of_two),
             "round scales up to a power of two");
}

void AddOperands(Table* table) {
  AddOperand("weights", &QuantConfig::weights, ParamKind::kWeightRule,
             {"tensor", "channel", "block", "group"}, table);
  table->Add("weights.scale_dtype", At(&QuantConfig::weights, &OperandConfig::scale_dtype),
             "type in which scales are stored");
  table->Add("weights.rounding", At(&QuantConfig::weights, &OperandConfig::rounding),
             "nearest, or compensated: so that the errors of the layers' outputs are small");
  AddOperand("activations", &QuantConfig::activations, ParamKind::kActivationRule,
             {"tensor", "token", "block", "group"}, table);
  table->Add("activations.clip", At(&QuantConfig::activations, &OperandConfig::clip),
             "clip values to the target on either side first");
  AddOperand("kv_cache", &QuantConfig::kv_cache, ParamKind::kCacheRule, {}, table);
  table->Add("kv_cache.per_head", At(&QuantConfig::kv_cache_per_head),
             "a scale for the keys and one for the values of each head");
}

void AddRules(Table* table) {
  constexpr auto kDelayed = &QuantConfig::delayed;
  table->Add("delayed.rule", At(kDelayed, &DelayedParams::rule), "estimate of the next amax");
  table
      ->Add("delayed.history", At(kDelayed, &DelayedParams::history),
            "measurements in the window of max")
      .Within(1, 1e6);
  table
      ->Add("delayed.interval", At(kDelayed, &DelayedParams::interval),
            "samples between two measurements")
      .Within(1, 1e6);
  table
      ->Add("delayed.alpha", At(kDelayed, &DelayedParams::alpha),
            "weight of the newest amax in exp_smooth")
      .Above(0, 1);
  constexpr auto kMse = &QuantConfig::mse;
  table->Add("mse.objective", At(kMse, &MseParams::objective), "what rule mse keeps small");
  table
      ->Add("mse.steps_per_octave", At(kMse, &MseParams::steps_per_octave),
            "candidate scales between two powers of two; four times as many near the best")
      .Within(1, 1000);
  table
      ->Add("mse.octaves", At(kMse, &MseParams::octaves),
            "how far from the scale of max candidates go, each way")
      .Within(0, 16);
  constexpr auto kExperts = &QuantConfig::experts;
  table
      ->Add("experts.min_rows", At(kExperts, &ExpertsConfig::min_rows),
            "an expert that saw fewer rows is rare")
      .Within(0, kMany);
  table->Add("experts.rare", At(kExperts, &ExpertsConfig::rare),
             "rare experts share statistics, stay in high precision, or are an error");
  table->Add("experts.route_all", At(kExperts, &ExpertsConfig::route_all),
             "send every row through every expert, for statistics only");
}

void AddSelection(Table* table) {
  table
      ->Add("high_precision_layers", At(&QuantConfig::high_precision_layers),
            "first and last transformer blocks that stay as they are")
      .Within(0, 1e6);
  table
      ->Add("blocks", At(&QuantConfig::blocks),
            "ONNX: regular expression whose group is a layer's block number")
      .Kind(ParamKind::kPattern);
  table->Add("propagate", At(&QuantConfig::propagate),
             "network that the statistics of later blocks come from");
  table->Add("layout", At(&QuantConfig::layout),
             "checkpoints: names and settings in the files, for the loaders that read them");
  table->Add("fused_groups", At(&QuantConfig::fused_groups),
             "layers that loaders run as one and that are given several schemes are completed to "
             "one, an error, or left");
  table->Add("policy", At(&QuantConfig::policy),
             "built-in list of layers that stay; layout: the layout's own");
  table->Add("keep", At(&QuantConfig::keep),
             "regular expressions: layers that stay in high precision");
  table->Add("only", At(&QuantConfig::only), "regular expressions: quantize these layers alone");
}

void AddData(Table* table) {
  constexpr auto kData = &QuantConfig::data;
  table->Add("data.samples", At(kData, &DataConfig::samples), "samples to use")
      .Kind(ParamKind::kCountOrAll)
      .Within(1, kMany);
  table
      ->Add("data.sequence_length", At(kData, &DataConfig::sequence_length),
            "tokens in a sample of text")
      .Within(2, 1e9);
  table
      ->Add("data.batch", At(kData, &DataConfig::batch),
            "samples in one run where the model leaves its batch open; all: files are fed as they "
            "are")
      .Kind(ParamKind::kCountOrAll)
      .Within(1, 1e6);
  table->Add("data.drop_last", At(kData, &DataConfig::drop_last),
             "drop the samples that do not fill a fixed batch");
  const auto image = [&](auto member) { return At(kData, &DataConfig::image, member); };
  table->Add("data.image.size", image(&ImageOptions::size), "height and width").Within(1, 65536);
  table->Add("data.image.mean", image(&ImageOptions::mean),
             "subtracted from values between 0 and 1, per channel");
  table->Add("data.image.std", image(&ImageOptions::std), "then divided by, per channel")
      .Above(0, kLargestFloat);
  table->Add("data.image.layout", image(&ImageOptions::layout), "order of the dimensions");
  table->Add("data.image.channels", image(&ImageOptions::channels), "order of the channels");
}

std::vector<Param> BuildTable() {
  Table table;
  AddOperands(&table);
  table.Add("attention", At(&QuantConfig::attention),
            "also quantize products of two activations (Q, K, P, V)");
  table.Add("embeddings", At(&QuantConfig::embeddings), "also quantize embedding tables");
  table.Add("lm_head", At(&QuantConfig::lm_head), "also quantize the language model head");
  table.Add("beside", At(&QuantConfig::beside),
            "also quantize what lies beside the network: multi-token prediction, vision towers");
  AddRules(&table);
  AddSelection(&table);
  AddData(&table);
  return table.Take();
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
  if (param == nullptr) throw BugError("no recipe key " + setting.key);
  param->set(config, setting.value);
}

}  // namespace hif8
