// Automatic mixed precision: which layers stay in high precision so that a goal holds.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lib/runtime/activation_source.h"

namespace hif8 {

// A number that a network is to reach, such as its output's SQNR.
struct AutoGoal {
  std::string text;  // as given
  bool higher_is_better = true;
  // Takes the worst output's value. Throws kUsage when the network has no such number.
  std::function<double(const Measurement&)> value;
  std::function<bool(double)> holds;
  std::string metric = {};  // what it is about, for reports

  bool Better(double a, double b) const { return higher_is_better ? a > b : a < b; }
};

// Samples that the sensitivities of all layers are estimated on.
inline constexpr uint64_t kAutoEstimateSamples = 8;

struct LayerSensitivity {
  int layer = -1;          // index into Model::layers()
  double alone = 0;        // the goal's number when only this layer is quantized
  bool confirmed = false;  // on all evaluation data, instead of the first samples
};

struct KeptLayer {
  int layer = -1;
  double before = 0;   // the goal's number with the layers above it in the list kept
  double after = 0;    // with this one too
  double without = 0;  // with all of the list but this one; NaN when the goal was not met
};

struct AutoResult {
  bool met = false;  // by a network that was tried; the written one is measured once more
  double plain = 0;  // with every layer quantized that the recipe quantizes
  std::vector<LayerSensitivity> ranking;  // most harmful first; empty when nothing had to be kept
  std::vector<KeptLayer> kept;            // most harmful first
};

// Values of the goal for networks in which those layers are quantized; `samples` 0: on all data.
using TryNetworks =
    std::function<std::vector<double>(std::span<const LayerSet> networks, uint64_t samples)>;

// Looks for few layers to keep. All are ranked by what each does alone, estimated on the first
// samples; those that decide are measured again on all data, the shortest prefix of the ranking
// that meets the goal is found by bisection, fewer layers are tried step by step, and layers that
// the others have made unnecessary are given back. At least one layer stays quantized. When the
// goal is out of reach, the best network that was tried is returned.
//
// `layers`: those that are quantized; `modules`: which of them are kept together (each stands in
// the result by its first layer); `plain`: the goal's number with all of them; `samples`: of the
// evaluation data.
AutoResult ChooseKeptLayers(const LayerSet& layers, const std::vector<std::vector<size_t>>& modules,
                            double plain, uint64_t samples, const AutoGoal& goal,
                            const TryNetworks& measure);

}  // namespace hif8
