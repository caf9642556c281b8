// What the taps of a checkpoint's parts see while two networks are compared. Internal to this
// module.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/model/safetensors/block_emitter.h"
#include "lib/model/safetensors/checkpoint.h"
#include "lib/runtime/activation_source.h"
#include "lib/runtime/tap_sink.h"

namespace hif8 {

// Turns what the taps of one part see into the measurement.
class MeasureSink : public TapSink {
 public:
  MeasureSink(const Checkpoint& checkpoint, const std::map<int, QuantizedActivation>& quantized,
              Measurement* measurement)
      : checkpoint_(checkpoint), quantized_(quantized), measurement_(measurement) {}

  // `comparable` false: the quantized network's rows are others than the original's were, so that
  // its outputs cannot be compared.
  void Aim(const PartGraph& part, const std::string& prefix, bool original,
           bool comparable = true) {
    if (original) outputs_.clear();  // the last run's are compared by now
    original_ = original;
    comparable_ = comparable;
    targets_.clear();
    names_.clear();
    for (const PartTap& tap : part.taps) {
      const std::string name = prefix + tap.name;
      targets_.push_back({tap.kind, tap.kind == TapKind::kActivation
                                        ? checkpoint_.ActivationIndex(name)
                                        : checkpoint_.LayerIndex(name)});
      names_.push_back(tap.name);
    }
  }

  void Observe(int id, const TensorView& x) override {
    const int index = targets_[static_cast<size_t>(id)].index;
    if (index < 0 || !comparable_) return;
    std::vector<float> buffer;
    const auto values = AsFloats(x, &buffer);
    // Several outputs of a part may count for one layer: found by name.
    std::vector<float>& original = outputs_[names_[static_cast<size_t>(id)]];
    if (original_) {
      original.assign(values.begin(), values.end());
    } else {
      measurement_->accumulated[static_cast<size_t>(index)].Add(original, values);
    }
  }

  void Compare(int id, const TensorView& x, const TensorView& y) override {
    const Tap& tap = targets_[static_cast<size_t>(id)];
    if (tap.index < 0) return;
    const auto at = static_cast<size_t>(tap.index);
    std::vector<float> x_buffer;
    std::vector<float> y_buffer;
    const auto a = AsFloats(x, &x_buffer);
    const auto b = AsFloats(y, &y_buffer);
    if (tap.kind == TapKind::kOutput) return measurement_->output[at].Add(a, b);
    const QuantizedActivation& q = quantized_.at(tap.index);
    measurement_->activation[at].Add(a, b);
    q.CountRange(a, &measurement_->activation[at]);
    if (q.visit) q.visit(x);
  }

 private:
  const Checkpoint& checkpoint_;
  const std::map<int, QuantizedActivation>& quantized_;
  Measurement* measurement_;
  bool original_ = true;
  bool comparable_ = true;
  std::vector<Tap> targets_;
  std::vector<std::string> names_;
  std::map<std::string, std::vector<float>> outputs_;  // of the original network's last run
};

}  // namespace hif8
