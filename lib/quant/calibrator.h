// The interface of a scale rule: from what was observed to a scale, as a pure function.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/registry.h"
#include "lib/numeric/number_format.h"
#include "lib/numeric/tensor_stats.h"

namespace hif8 {

enum class ScaleDType { kF32, kBF16 };

// How rule `delayed` estimates the amax of a step from earlier ones; see
// lib/quant/delayed_scaling.h.
enum class DelayedRule { kMostRecent, kExpSmooth, kMax, kCurrent };

struct DelayedParams {
  DelayedRule rule = DelayedRule::kMax;
  int64_t history = 64;   // measurements in the window of kMax, >= 1
  int64_t interval = 10;  // steps between two measurements, >= 1
  double alpha = 0.1;     // weight of the newest measurement in kExpSmooth, (0, 1]
};

// The numbers of a recipe that rules use. `target` <= 0 means the format's own default.
struct ScaleParams {
  double target = 0;
  double percentile = 99.9;  // percent of magnitudes, (0, 100]
  bool power_of_two = false;
  ScaleDType scale_dtype = ScaleDType::kF32;
  double ema_momentum = 0.99;
  int mse_steps_per_octave = 12;
  double mse_octaves = 4;
  DelayedParams delayed;
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

class Calibrator {
 public:
  virtual ~Calibrator() = default;
  virtual std::string_view name() const = 0;         // as in recipes
  virtual std::string_view description() const = 0;  // one line for --list rules
  virtual bool ForWeights() const { return true; }
  virtual bool ForActivations() const { return true; }
  // False for rules that need no data (`cast`).
  virtual bool NeedsData() const { return true; }
  // True when the result depends on the order of the samples (`ema`, `delayed`).
  virtual bool OrderDependent() const { return false; }

  // True for rules that look for the candidate scale with the least error (`mse`).
  virtual bool Searches() const { return false; }
  // That candidate by another measure of error, a function of the scale; `amax` > 0 is the largest
  // magnitude. Only for rules that search.
  virtual std::optional<ScaleChoice> Search(float /*amax*/, const NumberFormat& /*format*/,
                                            const ScaleParams& /*params*/,
                                            const std::function<double(float)>& /*error*/) const {
    return std::nullopt;
  }

  // True for rules to which nothing but the largest magnitude matters; SolveAmax is Solve for that
  // one, and only for these rules.
  virtual bool AmaxDecides() const { return false; }
  virtual ScaleChoice SolveAmax(float amax, const NumberFormat& format,
                                const ScaleParams& params) const;
  // From exact values: one channel, or a whole weight, all finite.
  virtual ScaleChoice Solve(std::span<const float> values, const NumberFormat& format,
                            const ScaleParams& params) const = 0;
  // The same in memory that does not grow with the number of values, for rules of weights.
  virtual ScaleChoice SolvePieces(const ValuePieces& values, const NumberFormat& format,
                                  const ScaleParams& params) const;
  // From a streamed record with count() > 0 (or any record when NeedsData() is false).
  virtual ScaleChoice Solve(const TensorStats& stats, const NumberFormat& format,
                            const ScaleParams& params) const = 0;
};

using CalibratorRegistry = Registry<Calibrator>;

// A scale as it can be written: rounded up to a power of two where asked, else to the nearest
// number of the scale's dtype; at least 2^-126, finite, and large enough that amax / scale is
// finite.
float RoundScale(float scale, float amax, const ScaleParams& params);

// RoundScale(reference / target); 1 for a reference of 0.
float ScaleFromReference(float reference, float amax, float target, const ScaleParams& params);

// The target of `params`, or the format's own.
float ResolveTarget(const NumberFormat& format, const ScaleParams& params);

// The choice that maps `reference` to the target.
ScaleChoice ChooseScale(float reference, float amax, const NumberFormat& format,
                        const ScaleParams& params);

}  // namespace hif8
