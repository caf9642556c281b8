// The interface of a scale rule: from what was observed to a scale, as a pure function.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/enum_names.h"
#include "lib/core/registry.h"
#include "lib/numeric/number_format.h"
#include "lib/numeric/tensor_stats.h"

namespace hif8 {

// The type in which scales are stored.
enum class ScaleDType { kF32, kBF16 };
template <>
inline constexpr EnumTable<ScaleDType, 2> kEnumNames<ScaleDType>{
    {{ScaleDType::kF32, "fp32"}, {ScaleDType::kBF16, "bf16"}}};

// Says how rule `delayed` estimates the amax of a step from earlier ones; see
// lib/quant/delayed_scaling.h.
enum class DelayedRule { kMostRecent, kExpSmooth, kMax, kCurrent };
template <>
inline constexpr EnumTable<DelayedRule, 4> kEnumNames<DelayedRule>{
    {{DelayedRule::kMostRecent, "most_recent"},
     {DelayedRule::kExpSmooth, "exp_smooth"},
     {DelayedRule::kMax, "max"},
     {DelayedRule::kCurrent, "current"}}};

struct DelayedParams {
  DelayedRule rule = DelayedRule::kMax;
  int64_t history = 64;   // measurements in the window of kMax, >= 1
  int64_t interval = 10;  // steps between two measurements, >= 1
  double alpha = 0.1;     // weight of the newest measurement in kExpSmooth, (0, 1]
  bool operator==(const DelayedParams&) const = default;
};

// Says what rule `mse` keeps small: the error of the operand itself, or of its layers' outputs.
enum class MseObjective { kTensor, kOutput };
template <>
inline constexpr EnumTable<MseObjective, 2> kEnumNames<MseObjective>{
    {{MseObjective::kTensor, "tensor"}, {MseObjective::kOutput, "output"}}};

struct MseParams {
  MseObjective objective = MseObjective::kTensor;
  int64_t steps_per_octave = 12;
  double octaves = 4;  // searched on either side of the `max` rule's scale
  bool operator==(const MseParams&) const = default;
};

// The numbers of a recipe that rules use. `target` <= 0 means the format's own default.
struct ScaleParams {
  double target = 0;
  double percentile = 99;  // percent of magnitudes, (0, 100]
  bool power_of_two = false;
  ScaleDType scale_dtype = ScaleDType::kF32;
  MseParams mse = {};
  DelayedParams delayed = {};
};

// A chosen scale and how it came about.
struct ScaleChoice {
  float scale = 1;      // normal fp32, as it will be written
  float reference = 0;  // the magnitude that was mapped to the target
  float amax = 0;       // largest finite magnitude seen
  float target = 0;     // what the reference was mapped to
  std::string note;     // a fallback that was taken, or empty
};

// Values that are too many to be held as fp32: shows them all, piece by piece, each time that it is
// called.
using ValuePieces = std::function<void(const std::function<void(std::span<const float>)>& visit)>;

// Says what a scale rule can do, and which settings it has.
struct RuleTraits {
  bool weights = true;
  bool activations = true;
  bool caches = false;           // keys and values of attention
  bool needs_data = true;        // false: the scale is the same whatever the values
  bool order_dependent = false;  // the result depends on the order of the samples
  // May be asked for where scales follow from the largest magnitude of each tile: activations with
  // dynamic scales, and formats whose scales are powers of two.
  bool tiles = false;
  // The recipe keys that it alone reads: a key of the operand ("percentile") or a group ("mse").
  std::string_view settings = {};
};

// Finds the candidate scale with the least error, by any measure of error.
class ScaleSearch {
 public:
  virtual ~ScaleSearch() = default;
  // `error` is a function of the scale; `amax` >= 0 is the largest magnitude.
  virtual ScaleChoice Search(float amax, const NumberFormat& format, const ScaleParams& params,
                             const std::function<double(float)>& error) const = 0;
};

// Solves for the largest magnitude alone, to rules for which nothing else matters.
class AmaxSolver {
 public:
  virtual ~AmaxSolver() = default;
  virtual ScaleChoice SolveAmax(float amax, const NumberFormat& format,
                                const ScaleParams& params) const = 0;
};

class Calibrator {
 public:
  virtual ~Calibrator() = default;
  virtual std::string_view name() const = 0;         // as in recipes
  virtual std::string_view description() const = 0;  // one line for --list rules
  virtual const RuleTraits& traits() const = 0;
  // Returns null for rules that do not search.
  virtual const ScaleSearch* search() const { return nullptr; }
  // Returns null for rules that look at more than the largest magnitude.
  virtual const AmaxSolver* amax_solver() const { return nullptr; }

  // Solves for exact values: one channel, or a whole weight, all finite.
  virtual ScaleChoice Solve(std::span<const float> values, const NumberFormat& format,
                            const ScaleParams& params) const = 0;
  // Does the same piece by piece. Holds all values unless a rule overrides it.
  virtual ScaleChoice SolvePieces(const ValuePieces& values, const NumberFormat& format,
                                  const ScaleParams& params) const;
  // Solves for a streamed record with count() > 0 (or any record without traits().needs_data).
  virtual ScaleChoice Solve(const TensorStats& stats, const NumberFormat& format,
                            const ScaleParams& params) const = 0;
};

using CalibratorRegistry = Registry<Calibrator>;

// Returns the first rule with that trait (`traits.*trait == value`); throws kBug where there is
// none.
const Calibrator& RuleWith(const CalibratorRegistry& rules, bool RuleTraits::*trait, bool value);

// Returns a scale as it can be written: rounded up to a power of two where asked, else to the
// nearest number of the scale's dtype; at least 2^-126, finite, and large enough that amax / scale
// is finite.
float RoundScale(float scale, float amax, const ScaleParams& params);

// RoundScale(reference / target); 1 for a reference of 0.
float ScaleFromReference(float reference, float amax, float target, const ScaleParams& params);

// Returns the target of `params`, or the format's own.
float ResolveTarget(const NumberFormat& format, const ScaleParams& params);

// Returns the choice that maps `reference` to the target.
ScaleChoice ChooseScale(float reference, float amax, const NumberFormat& format,
                        const ScaleParams& params);

}  // namespace hif8
