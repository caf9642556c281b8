// How the rules of delayed scaling would have fared: each replayed over the same steps.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lib/model/model.h"
#include "lib/quant/delayed_scaling.h"
#include "lib/quant/delayed_trace.h"
#include "lib/quant/plan.h"

namespace hif8 {

// The SQNR of the steps that have one, in dB. An exact step (infinite) is none that a mean can have
// a part in.
struct StepSqnr {
  double sum = 0;  // of the finite ones
  double worst = 0;
  uint64_t steps = 0, exact = 0;

  void Add(double sqnr_db);
  double Mean() const;   // NaN without steps, infinite when all are exact
  double Worst() const;  // likewise
};

// One rule over the steps of one activation. Steps with a value that is not finite are counted and
// left out of everything else.
struct DelayedOutcome {
  uint64_t steps = 0;
  uint64_t non_finite_steps = 0;
  uint64_t elements = 0;
  uint64_t exceeded_steps = 0;  // with |x| > estimate for some x
  uint64_t exceeded_elements = 0;
  uint64_t overflowed_steps = 0;  // with |x / scale| at or above the format's overflow threshold
  uint64_t overflowed_elements = 0;
  double overshoot = 0;     // largest log2(amax / estimate) of an exceeded step
  StepSqnr plain, clipped;  // clipped: to +-estimate before rounding, as QAT does
};

// Watches activations while they are observed. Memory depends on the number of activations and the
// history's length only: not on the number of steps.
class DelayedStudy {
 public:
  // Activations of the plan, in their formats and with their targets.
  explicit DelayedStudy(const QuantPlan& plan);

  // A tensor of `samples` consecutive steps, equal parts along its memory; one step when its size
  // does not divide. An empty tensor is no step.
  void Add(int activation, const TensorView& x, size_t samples);

  struct Replay {
    DelayedScaling scaling;
    DelayedOutcome outcome;
  };
  // Returns replays by activation, in the order of kDelayedRules.
  const std::map<int, std::vector<Replay>>& replays() const { return replays_; }

  // The steps of an activation that is in replays().
  const DelayedTrace& trace(int activation) const { return traces_.at(activation); }

  // Histories, estimates and step numbers as YAML, for a training framework to go on with.
  std::string State(const Model& model, const Fingerprint& fingerprint) const;

 private:
  void AddStep(int activation, std::span<const float> x);

  std::map<int, OperandPlan> operands_;
  std::map<int, std::vector<Replay>> replays_;
  std::map<int, DelayedTrace> traces_;
  std::vector<float> rounded_;
};

}  // namespace hif8
