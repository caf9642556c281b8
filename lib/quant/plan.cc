#include "lib/quant/plan.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/pattern.h"
#include "lib/model/safetensors/checkpoint_layout.h"
#include "lib/quant/config_layers.h"
#include "lib/quant/fused_groups.h"

namespace hif8 {
namespace {

// Block number of every layer: the model's own, or the number that the recipe's `blocks` pattern
// finds.
std::vector<int> BlockNumbers(const Model& model, const QuantConfig& config) {
  const std::vector<Layer>& layers = model.layers();
  std::vector<int> blocks(layers.size(), -1);
  const bool own =
      std::any_of(layers.begin(), layers.end(), [](const Layer& l) { return l.block >= 0; });
  if (config.blocks.empty()) {
    if (config.high_precision_layers > 0 && !own) {
      throw UsageError("high_precision_layers needs to know which layers form a block",
                       "give 'blocks', a regular expression with one number group, e.g. "
                       "--set 'blocks=layers\\.(\\d+)\\.'");
    }
    for (size_t i = 0; i < layers.size(); ++i) blocks[i] = layers[i].block;
    return blocks;
  }
  const Pattern pattern(config.blocks, "blocks");
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::optional<std::string> group = pattern.FirstGroup(layers[i].name);
    if (!group) continue;
    const char* end = group->data() + group->size();
    const auto result = std::from_chars(group->data(), end, blocks[i]);
    if (result.ec != std::errc() || result.ptr != end || blocks[i] < 0) {
      throw UsageError(
          "'blocks' must find a number, found '" + *group + "' in layer '" + layers[i].name + "'",
          "put the parentheses around the digits only, e.g. 'layers\\.(\\d+)\\.'");
    }
  }
  const bool none = std::all_of(blocks.begin(), blocks.end(), [](int b) { return b < 0; });
  if (none && config.high_precision_layers > 0) {
    throw UsageError("'blocks' finds a number in none of the model's layers",
                     "it needs one number group, e.g. 'layers\\.(\\d+)\\.'", config.blocks);
  }
  return blocks;
}

// Why a layer that is treated as one with those of `names` stays as it is, or empty.
std::string KeptBecause(const Layer& layer, std::span<const std::string> names,
                        const QuantConfig& config, const LayerRules& rules) {
  if (!layer.unsupported.empty()) return layer.unsupported;
  if (!layer.beside.empty() && !config.beside) {
    return layer.beside + "; quantized only with beside: true";
  }
  if (layer.optional) {
    const bool asked = (layer.option == "attention" && config.attention) ||
                       (layer.kind == LayerKind::kCache && config.kv_cache.rule != kRuleOff) ||
                       (layer.option == "embeddings" && config.embeddings) ||
                       (layer.option == "lm_head" && config.lm_head);
    const char* value = layer.kind == LayerKind::kCache ? ".rule" : ": true";
    if (!asked) return "quantized only with " + layer.option + value;
  }
  return rules.KeptBecause(names);
}

// Returns the format's tiles for the granularity; null where scales do not belong to tiles. Throws
// kUsage when the recipe asks for tiles that the format does not have.
const TileScales* TilesOf(const NumberFormat& format, Granularity asked, const char* operand) {
  const TileScales* tiles = format.TilesFor(asked);
  const bool tiled = asked == Granularity::kGroup || asked == Granularity::kBlock;
  if (!tiled || (tiles != nullptr && tiles->granularity == asked)) return tiles;
  std::string known;
  for (const TileScales& own : format.storage().tiles) {
    known += (known.empty() ? "" : ", ") + std::string(NameOf(own.granularity));
  }
  throw UsageError(std::string(operand) + " of format '" + std::string(format.name()) +
                       "' with granularity " + std::string(NameOf(asked)) +
                       ": this format has no such scales",
                   known.empty() ? "use another format" : "use granularity " + known);
}

class Planner {
 public:
  Planner(const Model& model, const QuantConfig& config, const ParseContext& context)
      : model_(model), config_(config), context_(context), rules_(config) {}

  QuantPlan Make() {
    CheckPatterns();
    const std::vector<int> blocks = BlockNumbers(model_, config_);
    const int block_count =
        blocks.empty() ? 0 : *std::max_element(blocks.begin(), blocks.end()) + 1;
    const auto decide = [&](size_t i, std::span<const std::string> names) {
      LayerDecision decision{KeptBecause(model_.layers()[i], names, config_, rules_), {}};
      if (decision.reason.empty() &&
          IsHighPrecisionBlock(blocks[i], block_count, config_.high_precision_layers)) {
        decision.reason = "block " + std::to_string(blocks[i]) + " is one of " +
                          std::to_string(config_.high_precision_layers) + " high-precision blocks";
      }
      if (decision.reason.empty()) decision.config = rules_.Resolve(names);
      if (decision.reason.empty() && model_.layers()[i].kind == LayerKind::kProduct &&
          decision.config.activations.rule == kRuleOff) {
        decision.reason = "activations.rule is off";
      }
      if (decision.reason.empty() && HasKernelTiles(model_.layers()[i], decision.config.weights)) {
        decision.reason =
            "the weights of a convolution have scales per tensor or channel, no others";
      }
      return decision;
    };
    std::vector<LayerDecision> decisions;
    for (size_t i = 0; i < model_.layers().size(); ++i) {
      decisions.push_back(decide(i, std::span(&model_.layers()[i].name, 1)));
    }
    plan_.notices = CompleteModules(model_, config_, context_, decide, &decisions);
    for (size_t i = 0; i < decisions.size(); ++i) {
      const std::string& reason = decisions[i].reason;
      plan_.layers.push_back({reason.empty(), reason});
      if (reason.empty()) AddOperands(model_.layers()[i], decisions[i].config);
    }
    return std::move(plan_);
  }

  // For an input that no run observes: only the weight has scales.
  OperandPlan Converted(const Activation& activation, OperandConfig config) const {
    config.rule = NoDataRule().name();
    OperandPlan plan = MakeActivation(activation, config);
    plan.note = "no run reaches it: its input is converted without a scale";
    return plan;
  }

 private:
  const Calibrator& Rule(const OperandConfig& config) const {
    return context_.rules.Get(config.rule);
  }
  // The rule that converts without looking at data, and the one for scales of tiles.
  const Calibrator& NoDataRule() const {
    return RuleWith(context_.rules, &RuleTraits::needs_data, false);
  }
  const Calibrator& TileRule() const { return RuleWith(context_.rules, &RuleTraits::tiles, true); }

  // The recipe wants scales of parts of a convolution's channel that files have no place for.
  bool HasKernelTiles(const Layer& layer, const OperandConfig& config) const {
    if (layer.weight < 0 || !model_.weights()[static_cast<size_t>(layer.weight)].kernel) {
      return false;
    }
    return config.granularity == Granularity::kBlock || config.granularity == Granularity::kGroup ||
           context_.formats.Get(config.format).OwnTiles() != nullptr;
  }

  void CheckPatterns() const {
    std::vector<std::string> names;
    for (const Layer& layer : model_.layers()) names.push_back(layer.name);
    rules_.RequireMatches(names);
  }

  OperandPlan MakeOperand(const OperandConfig& config) const {
    OperandPlan operand;
    operand.format = &context_.formats.Get(config.format);
    operand.rule = &Rule(config);
    operand.config = config;
    operand.params = MakeScaleParams(config, config_);
    return operand;
  }

  // Inserts what there is, or checks that the layer that came first asked for the same.
  template <typename Plan>
  void Share(std::map<int, Plan>* plans, int index, std::optional<Plan> plan,
             const std::string& tensor, const std::string& layer) {
    const auto [user, first] =
        first_user_.emplace(std::pair(static_cast<const void*>(plans), index), layer);
    const auto at = plans->find(index);
    if (first) {
      if (plan) plans->emplace(index, *std::move(plan));
    } else if ((at != plans->end()) != plan.has_value() ||
               (plan && at->second.config != plan->config)) {
      throw UsageError("layers '" + user->second + "' and '" + layer + "' share the tensor '" +
                           tensor + "' but the recipe's overrides ask for different things",
                       "write one override that matches both");
    }
  }

  void AddOperands(const Layer& layer, const LayerConfig& config) {
    if (layer.weight >= 0) {
      const Weight& weight = model_.weights()[static_cast<size_t>(layer.weight)];
      Share(&plan_.weights, layer.weight, std::optional(MakeWeight(weight, config.weights)),
            weight.name, layer.name);
    }
    for (const int index : {layer.activation, layer.second_activation}) {
      if (index < 0) continue;
      const Activation& activation = model_.activations()[static_cast<size_t>(index)];
      std::optional<OperandPlan> operand;  // none: the layer is weight-only
      if (layer.kind == LayerKind::kCache) {
        operand = MakeCache(config_.kv_cache);
      } else if (config.activations.rule != kRuleOff) {
        operand = MakeActivation(activation, config.activations);
      }
      Share(&plan_.activations, index, std::move(operand), activation.name, layer.name);
    }
  }

  WeightPlan MakeWeight(const Weight& weight, OperandConfig config) const {
    const NumberFormat& format = context_.formats.Get(config.format);
    const TileScales* tiles = TilesOf(format, config.granularity, "weights");
    if (tiles != nullptr) {
      config.granularity = tiles->granularity;
      if (format.ScalesFollowAmax() && !Rule(config).traits().tiles) {
        throw UsageError("weights of format '" + config.format + "' with rule '" + config.rule +
                             "': its scales follow from the largest magnitude of each group",
                         "use rule " + std::string(TileRule().name()) + " for these layers");
      }
    }
    const CheckpointLayout& layout = LayoutOf(config_.layout);
    if (weight.dtype != DType::kF16 && layout.NeedsBf16Scales(config.format)) {
      config.scale_dtype = ScaleDType::kBF16;
    }
    WeightPlan plan;
    static_cast<OperandPlan&>(plan) = MakeOperand(config);
    if (config.granularity == Granularity::kTensor) {
      plan.tile = {kWholeEdge, kWholeEdge};
      plan.layout = ChannelLayout::PerTensor(weight.size());
      return plan;
    }
    plan.note = weight.note;
    plan.layout = weight.channels;
    if (config.granularity == Granularity::kChannel && config_.layout == LayoutKind::kCann &&
        weight.row_groups > 1) {
      const auto groups = static_cast<int64_t>(weight.row_groups);
      const Shape& shape = weight.shape;
      plan.layout = {{groups, shape[0] / groups, shape[1]}, {groups, 1, shape[1]}};
    } else if (config.granularity != Granularity::kChannel) {
      plan.tile = tiles->weight;
      plan.layout = WeightTiles(weight.channels, plan.tile);
    }
    return plan;
  }

  OperandPlan MakeCache(const OperandConfig& config) const {
    if (!context_.formats.Get(config.format).storage().tiled) return MakeOperand(config);
    throw UsageError(
        "kv_cache of format '" + config.format + "': caches have one static scale",
        "use a format with a scale per tensor, such as '" + context_.formats.names().front() + "'");
  }

  OperandPlan MakeActivation(const Activation& activation, OperandConfig config) const {
    const NumberFormat& format = context_.formats.Get(config.format);
    const TileScales* tiles = TilesOf(format, config.granularity, "activations");
    const bool coded = format.HasGlobalScale();
    if (format.storage().tiled) {
      config.granularity = tiles->granularity;
      // Scales that belong to the format need no data, which is all that `cast` asks for.
      if (!coded && !Rule(config).traits().needs_data) config.rule = TileRule().name();
    } else if (!Rule(config).traits().needs_data) {
      config.granularity = Granularity::kTensor;
    }
    if (LayoutOf(config_.layout).NeedsBf16Scales(config.format)) {
      config.scale_dtype = ScaleDType::kBF16;
    }
    OperandPlan plan = MakeOperand(config);
    if (config.granularity == Granularity::kTensor) return plan;
    if (!plan.rule->traits().tiles && (!coded || plan.rule->traits().needs_data)) {
      throw UsageError("activations of format '" + config.format + "' with granularity " +
                           std::string(NameOf(config.granularity)) + " and rule '" + config.rule +
                           "': such scales are found when the model runs",
                       "use rule " + std::string(TileRule().name()) +
                           " for these layers, or granularity tensor");
    }
    if (activation.mixed_axes) {
      throw UsageError("the layers that read '" + activation.name +
                           "' sum over different dimensions of it, so that scales per " +
                           std::string(NameOf(config.granularity)) + " would suit one of them only",
                       "keep one of these layers, or use granularity tensor for them");
    }
    plan.dynamic =
        TileScaling{tiles != nullptr ? tiles->activation : TileScales::Tile{1, kWholeEdge},
                    ResolveTarget(format, plan.params), config.power_of_two};
    if (coded)
      plan.params.target = plan.dynamic->target * format.storage().scale_format->MaxFinite();
    return plan;
  }

  const Model& model_;
  const QuantConfig& config_;
  const ParseContext& context_;
  LayerRules rules_;
  QuantPlan plan_;
  // The layer that came first, by map of operands and index in it.
  std::map<std::pair<const void*, int>, std::string> first_user_;
};

// Removes operands that no quantized layer uses any more.
void DropUnusedOperands(const Model& model, QuantPlan* plan) {
  std::map<int, WeightPlan> weights;
  std::map<int, OperandPlan> activations;
  for (size_t i = 0; i < plan->layers.size(); ++i) {
    if (!plan->layers[i].quantized) continue;
    const Layer& layer = model.layers()[i];
    if (layer.weight >= 0) weights.insert(*plan->weights.find(layer.weight));
    for (const int index : {layer.activation, layer.second_activation}) {
      const auto read = plan->activations.find(index);
      if (read != plan->activations.end()) activations.insert(*read);
    }
  }
  plan->weights = std::move(weights);
  plan->activations = std::move(activations);
}

// Why data says that the tensor cannot be quantized, or empty.
std::string UnusableBecause(const TensorStats& stats) {
  if (stats.count() > 0) return {};
  if (stats.nan_count() + stats.inf_count() > 0) return "its input was never finite";
  return "its input was never observed: no sample reached it";
}

}  // namespace

FakeQuantize OperandPlan::With(const ScaleChoice& choice) const {
  FakeQuantize how{format, choice.scale, {}, dynamic};
  if (dynamic) {
    how.dynamic->global_scale = 1 / choice.scale;
  } else if (config.clip && NeedsData()) {
    how.clip = choice.reference;
  }
  return how;
}

std::vector<bool> QuantPlan::QuantizedLayers() const {
  std::vector<bool> flags;
  flags.reserve(layers.size());
  for (const LayerPlan& layer : layers) flags.push_back(layer.quantized);
  return flags;
}

std::vector<int> QuantPlan::ObservedActivations(bool dynamic) const {
  std::vector<int> wanted;
  for (const auto& [index, operand] : activations) {
    if (operand.NeedsData() || (dynamic && operand.rule->traits().needs_data))
      wanted.push_back(index);
  }
  return wanted;
}

QuantPlan MakePlan(const Model& model, const QuantConfig& config, const ParseContext& context) {
  return Planner(model, config, context).Make();
}

void ConvertUnreached(const Model& model, const QuantConfig& config, const ParseContext& context,
                      const std::function<bool(int activation)>& observed, QuantPlan* plan) {
  const Planner planner(model, config, context);
  for (size_t i = 0; i < plan->layers.size(); ++i) {
    const Layer& layer = model.layers()[i];
    if (!plan->layers[i].quantized || layer.beside.empty()) continue;
    const auto read = plan->activations.find(layer.activation);
    if (read == plan->activations.end() || !read->second.NeedsData() ||
        observed(layer.activation)) {
      continue;
    }
    const Activation& activation = model.activations()[static_cast<size_t>(layer.activation)];
    read->second = planner.Converted(activation, read->second.config);
  }
}

void RequireQuantizedLayers(const Model& model, const QuantPlan& plan, const std::string& hint) {
  const std::vector<LayerPlan>& layers = plan.layers;
  if (std::any_of(layers.begin(), layers.end(), [](const LayerPlan& l) { return l.quantized; })) {
    return;
  }
  std::string message = "no layer can be quantized";
  if (layers.empty()) message += ": the model has no layer with weights";
  for (size_t i = 0; i < std::min<size_t>(layers.size(), 3); ++i) {
    message += (i == 0 ? ": '" : "; '") + model.layers()[i].name + "': " + layers[i].reason;
  }
  if (layers.size() > 3) message += "; and " + std::to_string(layers.size() - 3) + " more";
  throw ModelError(message, hint, model.path().string());
}

std::vector<std::string> KeepUnobserved(const Model& model, const std::vector<TensorStats>& stats,
                                        QuantPlan* plan) {
  std::vector<std::string> taken_back;
  for (size_t i = 0; i < plan->layers.size(); ++i) {
    LayerPlan& layer_plan = plan->layers[i];
    const Layer& layer = model.layers()[i];
    for (const int index : {layer.activation, layer.second_activation}) {
      const OperandPlan* const read = plan->FindActivation(index);
      if (!layer_plan.quantized || read == nullptr || !read->NeedsData()) continue;
      const std::string reason = UnusableBecause(stats[static_cast<size_t>(index)]);
      if (reason.empty()) continue;
      layer_plan = {false, reason};
      taken_back.push_back(layer.name);
    }
  }
  DropUnusedOperands(model, plan);
  return taken_back;
}

void KeepLayers(const Model& model, const std::vector<std::string>& names,
                const std::string& reason, QuantPlan* plan) {
  for (size_t i = 0; i < plan->layers.size(); ++i) {
    if (!plan->layers[i].quantized) continue;
    if (std::find(names.begin(), names.end(), model.layers()[i].name) == names.end()) continue;
    plan->layers[i] = {false, reason};
  }
  DropUnusedOperands(model, plan);
}

}  // namespace hif8
