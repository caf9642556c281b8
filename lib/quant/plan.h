// What will be quantized, how, and why not: decided once, printed by --dry-run, executed by the
// pipeline.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/model/model.h"
#include "lib/numeric/fake_quantize.h"
#include "lib/numeric/number_format.h"
#include "lib/numeric/tensor_stats.h"
#include "lib/numeric/tile_scaling.h"
#include "lib/quant/calibrator.h"
#include "lib/quant/config.h"

namespace hif8 {

// Decides how one operand is quantized. The pointers refer to registries that outlive the plan.
struct OperandPlan {
  const NumberFormat* format = nullptr;
  const Calibrator* rule = nullptr;
  OperandConfig config;
  ScaleParams params;
  std::string note;  // why it is coarser than asked, or empty
  // Activations: scales are found when the model runs, one per tile.
  std::optional<TileScaling> dynamic;

  // Returns whether one scale is chosen before the model runs: the operand's, or the one that the
  // scales of its tiles are stored over.
  bool HasStaticScale() const { return !dynamic || format->HasGlobalScale(); }
  // Returns whether that scale must come from calibration data.
  bool NeedsData() const { return HasStaticScale() && rule->traits().needs_data; }
  // Returns how an activation is fake-quantized with a scale that was chosen for it.
  FakeQuantize With(const ScaleChoice& choice) const;
};

struct WeightPlan : OperandPlan {
  TileScales::Tile tile{1, kWholeEdge};  // outputs x inputs that share a scale
  TileLayout layout;                     // the same for this weight's dimensions
};

struct LayerPlan {
  bool quantized = false;
  std::string reason;  // why it stays in high precision, or empty
};

struct QuantPlan {
  std::vector<LayerPlan> layers;      // indexed like Model::layers()
  std::map<int, WeightPlan> weights;  // by index into Model::weights(): those that are quantized
  std::map<int, OperandPlan> activations;  // by index into Model::activations()
  std::vector<std::string> notices;        // what a user should know, one sentence each

  std::vector<bool> QuantizedLayers() const;  // a flag for each layer
  // Returns how that activation is quantized; null: it stays as it is, or there is none (-1).
  const OperandPlan* FindActivation(int index) const;
  // Returns whether the weight alone is quantized of a layer that has an input too.
  bool IsWeightOnly(const Model& model, size_t layer) const;
  // Returns activations whose scale must come from data; with `dynamic`, those as well that have
  // none but whose rule could choose one.
  std::vector<int> ObservedActivations(bool dynamic = false) const;
};

// Returns the bytes that codes and scales of a weight take.
uint64_t StoredBytes(const WeightPlan& plan);

// Decides for every layer. Throws kUsage when a pattern matches nothing, when layers that share a
// tensor ask for different things, or when the recipe asks for what this kind of model has no way
// to hold.
QuantPlan MakePlan(const Model& model, const QuantConfig& config, const ParseContext& context);

// Lets layers beside the network, whose input was not `observed`, convert it without a scale.
void ConvertUnreached(const Model& model, const QuantConfig& config, const ParseContext& context,
                      const std::function<bool(int activation)>& observed, QuantPlan* plan);

// Throws kModel, with the reasons of the first layers, when the plan quantizes nothing. `hint` says
// what to do.
void RequireQuantizedLayers(const Model& model, const QuantPlan& plan, const std::string& hint);

// Takes back from the plan the layers whose input was never observed or never finite. `stats` is
// indexed like Model::activations(). Returns the names of the layers that were taken back.
std::vector<std::string> KeepUnobserved(const Model& model, const std::vector<TensorStats>& stats,
                                        QuantPlan* plan);

// Takes the named layers back from the plan, for that reason.
void KeepLayers(const Model& model, const std::vector<std::string>& names,
                const std::string& reason, QuantPlan* plan);

// Shares, from 0 to 1: quantized elements of all floating-point constants, quantized multiply-adds
// of all known.
struct Coverage {
  double parameters = 0;
  double macs = 0;
  size_t unknown_macs = 0;  // convolutions that `macs`, where it is known, leaves out
};

// Counts what a plan quantizes. Caches are no layers here: they have neither weights nor
// multiply-adds.
struct PlanSummary {
  size_t layers = 0, quantized = 0;
  size_t weight_only = 0;  // of the quantized ones
  size_t caches = 0;       // quantized ones
  Coverage coverage;
  uint64_t bytes_before = 0, bytes_after = 0;  // of all weights of layers, each counted once
};
PlanSummary Summarize(const Model& model, const QuantPlan& plan);

}  // namespace hif8
