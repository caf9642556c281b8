#include "lib/quant/auto_precision.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace hif8 {
namespace {

constexpr size_t kLookahead = 4;      // layers that are tried at each step
constexpr size_t kMostStepwise = 16;  // no more are kept one by one

class Search {
 public:
  Search(const LayerSet& layers, const std::vector<std::vector<size_t>>& modules,
         const AutoGoal& goal, const TryNetworks& measure)
      : layers_(layers), goal_(goal), measure_(measure) {
    for (size_t i = 0; i < layers.size(); ++i) {
      if (layers[i]) units_[i] = {i};
    }
    for (const std::vector<size_t>& module : modules) {
      if (!layers[module.front()]) continue;
      for (const size_t layer : module) units_.erase(layer);
      units_[module.front()] = module;
    }
  }

  AutoResult Run(double plain, uint64_t samples) {
    AutoResult result;
    result.plain = plain;
    result.met = goal_.holds(plain);
    if (result.met) return result;
    Rank(samples);
    const size_t count = ShortestPrefix(ranking_.size() - 1);
    result.met = count > 0;
    if (result.met) {
      kept_ = Prefix(count);
      if (Confirm(2 * count + 2, samples)) {  // the new order may need fewer
        const size_t again = ShortestPrefix(count);
        if (again > 0) kept_ = Prefix(again);
      }
      if (kept_.size() <= kMostStepwise) KeepStepwise();
      GiveBack();
    } else {
      kept_ = best_;
    }
    SortKept();
    result.kept = Account(plain, result.met);
    result.ranking = std::move(ranking_);
    return result;
  }

 private:
  LayerSet Without(const std::vector<int>& kept) const {
    LayerSet layers = layers_;
    for (const int layer : kept) Set(layer, false, &layers);
    return layers;
  }

  void Set(int unit, bool value, LayerSet* layers) const {
    for (const size_t layer : units_.at(static_cast<size_t>(unit))) (*layers)[layer] = value;
  }

  std::vector<int> Prefix(size_t count) const {
    std::vector<int> layers;
    for (size_t i = 0; i < count; ++i) layers.push_back(ranking_[i].layer);
    return layers;
  }

  // The goal's numbers on all data when these are kept; nothing is measured twice.
  std::vector<double> Values(const std::vector<std::vector<int>>& kept) {
    std::vector<LayerSet> wanted;
    for (const std::vector<int>& layers : kept) {
      const LayerSet set = Without(layers);
      const bool asked = std::find(wanted.begin(), wanted.end(), set) != wanted.end();
      if (!known_.contains(set) && !asked) wanted.push_back(set);
    }
    if (!wanted.empty()) {
      const std::vector<double> values = measure_(wanted, 0);
      for (size_t i = 0; i < wanted.size(); ++i) known_[wanted[i]] = values[i];
    }
    std::vector<double> values;
    for (const std::vector<int>& layers : kept) {
      values.push_back(known_.at(Without(layers)));
      if (best_.empty() || goal_.Better(values.back(), best_value_)) {
        best_ = layers;
        best_value_ = values.back();
      }
    }
    return values;
  }
  double Value(const std::vector<int>& kept) { return Values({kept}).front(); }

  void Sort() {
    std::stable_sort(ranking_.begin(), ranking_.end(),
                     [&](const auto& a, const auto& b) { return goal_.Better(b.alone, a.alone); });
  }

  std::vector<double> Alone(std::span<const LayerSensitivity> layers, uint64_t samples) {
    std::vector<LayerSet> networks;
    for (const LayerSensitivity& entry : layers) {
      networks.emplace_back(layers_.size(), false);
      Set(entry.layer, true, &networks.back());
    }
    return measure_(networks, samples);
  }

  void Rank(uint64_t samples) {
    for (const auto& [first, unit] : units_) {
      ranking_.push_back({static_cast<int>(first), 0, samples <= kAutoEstimateSamples});
    }
    const std::vector<double> alone = Alone(ranking_, kAutoEstimateSamples);
    for (size_t i = 0; i < ranking_.size(); ++i) ranking_[i].alone = alone[i];
    Sort();
  }

  // Measures the first `count` of the ranking on all data and sorts them anew; false when their
  // order stays.
  bool Confirm(size_t count, uint64_t samples) {
    if (samples <= kAutoEstimateSamples) return false;
    count = std::min(count, ranking_.size());
    const std::vector<LayerSensitivity> rest(ranking_.begin() + static_cast<ptrdiff_t>(count),
                                             ranking_.end());
    const std::vector<int> before = Prefix(count);
    ranking_.resize(count);
    const std::vector<double> alone = Alone(ranking_, 0);
    for (size_t i = 0; i < count; ++i) {
      ranking_[i].alone = alone[i];
      ranking_[i].confirmed = true;
    }
    Sort();
    const bool changed = Prefix(count) != before;
    ranking_.insert(ranking_.end(), rest.begin(), rest.end());
    return changed;
  }

  // The smallest prefix, from 1 to `most` layers, that meets the goal while the next smaller one
  // does not; 0 when `most` do not meet it.
  size_t ShortestPrefix(size_t most) {
    if (most == 0 || !goal_.holds(Value(Prefix(most)))) return 0;
    size_t low = 0;  // does not
    size_t high = most;
    while (high - low > 1) {
      const size_t middle = low + (high - low) / 2;
      (goal_.holds(Value(Prefix(middle))) ? high : low) = middle;
    }
    return high;
  }

  // What layers do together is not the sum of what they do alone: keeps, one after the other, the
  // best of those that come next in the ranking. Replaces what is kept when that takes fewer.
  void KeepStepwise() {
    std::vector<int> chosen;
    while (chosen.size() + 1 < kept_.size()) {
      std::vector<std::vector<int>> lists;
      for (const LayerSensitivity& entry : ranking_) {
        if (lists.size() == kLookahead) break;
        if (std::find(chosen.begin(), chosen.end(), entry.layer) != chosen.end()) continue;
        lists.push_back(chosen);
        lists.back().push_back(entry.layer);
      }
      chosen = lists[BestOf(Values(lists))];
      if (goal_.holds(Value(chosen))) {
        kept_ = chosen;
        return;
      }
    }
  }

  size_t BestOf(const std::vector<double>& values) const {
    size_t best = 0;
    for (size_t i = 1; i < values.size(); ++i) {
      if (goal_.Better(values[i], values[best])) best = i;
    }
    return best;
  }

  std::vector<std::vector<int>> AllButOne() const {
    std::vector<std::vector<int>> lists;
    for (size_t i = 0; i < kept_.size(); ++i) {
      lists.push_back(kept_);
      lists.back().erase(lists.back().begin() + static_cast<ptrdiff_t>(i));
    }
    return lists;
  }

  // Quantizes kept layers again, the least missed first, while the goal holds.
  void GiveBack() {
    while (kept_.size() > 1) {
      const std::vector<std::vector<int>> lists = AllButOne();
      const std::vector<double> values = Values(lists);
      const size_t best = BestOf(values);
      if (!goal_.holds(values[best])) return;
      kept_ = lists[best];
    }
  }

  void SortKept() {
    std::vector<int> sorted;
    for (const LayerSensitivity& entry : ranking_) {
      if (std::find(kept_.begin(), kept_.end(), entry.layer) != kept_.end()) {
        sorted.push_back(entry.layer);
      }
    }
    kept_ = std::move(sorted);
  }

  // What each kept layer bought.
  std::vector<KeptLayer> Account(double plain, bool met) {
    std::vector<std::vector<int>> lists;
    for (size_t i = 0; i < kept_.size(); ++i) {
      lists.emplace_back(kept_.begin(), kept_.begin() + static_cast<ptrdiff_t>(i) + 1);
    }
    const std::vector<double> after = Values(lists);
    std::vector<double> without(kept_.size(), std::numeric_limits<double>::quiet_NaN());
    if (kept_.size() == 1) {
      without.front() = plain;
    } else if (met) {  // the search needed them
      without = Values(AllButOne());
    }
    std::vector<KeptLayer> account;
    for (size_t i = 0; i < kept_.size(); ++i) {
      account.push_back({kept_[i], i == 0 ? plain : after[i - 1], after[i], without[i]});
    }
    return account;
  }

  const LayerSet& layers_;
  std::map<size_t, std::vector<size_t>> units_;  // layers that are kept together, by their first
  const AutoGoal& goal_;
  const TryNetworks& measure_;
  std::vector<LayerSensitivity> ranking_;
  std::vector<int> kept_;
  std::map<LayerSet, double> known_;
  std::vector<int> best_;  // kept in the best network that was tried
  double best_value_ = 0;
};

}  // namespace

AutoResult ChooseKeptLayers(const LayerSet& layers, const std::vector<std::vector<size_t>>& modules,
                            double plain, uint64_t samples, const AutoGoal& goal,
                            const TryNetworks& measure) {
  return Search(layers, modules, goal, measure).Run(plain, samples);
}

}  // namespace hif8
