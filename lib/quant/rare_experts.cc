#include "lib/quant/rare_experts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/core/error.h"

namespace hif8 {
namespace {

// "model.layers.3.mlp.experts.17.up_proj" -> "model.layers.3.mlp.experts.*.up_proj"
std::optional<std::string> GroupOf(const std::string& name) {
  constexpr std::string_view kMark = ".experts.";
  const size_t mark = name.find(kMark);
  if (mark == std::string::npos) return std::nullopt;
  const size_t number = mark + kMark.size();
  const size_t end = name.find_first_not_of("0123456789", number);
  if (end == number || end == std::string::npos || name[end] != '.') return std::nullopt;
  return name.substr(0, number) + "*" + name.substr(end);
}

struct Expert {
  int activation;
  uint64_t rows;
  std::vector<size_t> layers;  // that read it
};

uint64_t RowsOf(const Model& model, const Layer& layer, const TensorStats& stats) {
  const auto width =
      static_cast<uint64_t>(model.weights()[static_cast<size_t>(layer.weight)].shape.back());
  const uint64_t values = stats.count() + stats.nan_count() + stats.inf_count();
  return width == 0 ? 0 : values / width;
}

// The quantized experts of each group (one projection of one block).
std::map<std::string, std::vector<Expert>> Groups(const Model& model, const QuantPlan& plan,
                                                  const std::vector<TensorStats>& stats) {
  std::map<std::string, std::vector<Expert>> groups;
  std::map<int, std::pair<std::string, size_t>> seen;  // by activation
  for (size_t i = 0; i < model.layers().size(); ++i) {
    const Layer& layer = model.layers()[i];
    if (!plan.layers[i].quantized || layer.weight < 0 || layer.activation < 0) continue;
    const auto operand = plan.activations.find(layer.activation);
    const std::optional<std::string> group = GroupOf(layer.name);
    if (!group || operand == plan.activations.end() || !operand->second.NeedsData()) continue;
    if (const auto found = seen.find(layer.activation); found != seen.end()) {
      groups[found->second.first][found->second.second].layers.push_back(i);
      continue;
    }
    const TensorStats& record = stats[static_cast<size_t>(layer.activation)];
    std::vector<Expert>& experts = groups[*group];
    seen.emplace(layer.activation, std::pair(*group, experts.size()));
    experts.push_back({layer.activation, RowsOf(model, layer, record), {i}});
  }
  return groups;
}

std::string Seen(const Expert& expert, int64_t min_rows) {
  return "saw " + std::to_string(expert.rows) + (expert.rows == 1 ? " row" : " rows") +
         " of calibration data, fewer than " + std::to_string(std::max<int64_t>(min_rows, 1));
}

}  // namespace

RareExperts TreatRareExperts(const Model& model, const ExpertsConfig& config,
                             std::vector<TensorStats>* stats, QuantPlan* plan) {
  RareExperts result;
  const auto enough = static_cast<uint64_t>(std::max<int64_t>(config.min_rows, 1));
  for (const auto& [group, experts] : Groups(model, *plan, *stats)) {
    TensorStats all;
    for (const Expert& e : experts) all.Merge((*stats)[static_cast<size_t>(e.activation)]);
    for (const Expert& e : experts) {
      if (e.rows >= enough) continue;
      const std::string why = Seen(e, config.min_rows);
      if (config.rare == RarePolicy::kError) {
        throw ModelError("expert '" + model.layers()[e.layers.front()].name + "' " + why,
                         "give more data, lower experts.min_rows, or set experts.rare to pooled or "
                         "keep",
                         model.path().string());
      }
      if (config.rare == RarePolicy::kKeep) {
        for (const size_t layer : e.layers) {
          plan->layers[layer] = {false, "the expert " + why};
          result.kept.push_back(model.layers()[layer].name);
        }
        continue;
      }
      TensorStats pooled;
      pooled.Merge(all);
      (*stats)[static_cast<size_t>(e.activation)] = std::move(pooled);
      result.pooled[e.activation] =
          why + "; it has the statistics of all " + std::to_string(experts.size()) + " experts";
    }
  }
  KeepLayers(model, {}, "", plan);  // drops the operands that nobody uses any more
  return result;
}

}  // namespace hif8
