// Runs a model over data: gathers statistics before quantization and errors after it.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/core/log.h"
#include "lib/model/graph.h"
#include "lib/model/model.h"
#include "lib/numeric/error_metrics.h"
#include "lib/numeric/fake_quantize.h"
#include "lib/numeric/tensor_stats.h"

namespace hif8 {

// A quantized activation as the measuring pass sees it.
struct QuantizedActivation {
  FakeQuantize how;
  float reference = 0;  // magnitude that was mapped to the target, for the exceeded rate
  // Called with every tensor of it in the original network, beside the measuring; may be empty.
  std::function<void(const TensorView&)> visit = {};

  // Counts values of the original network that a static scale sends out of its range.
  void CountRange(std::span<const float> x, ErrorMetrics* metrics) const {
    if (how.dynamic) return;
    metrics->CountRange(x, how.scale, how.format->OverflowThreshold(), reference);
  }
};

// Errors of one network output.
struct OutputMeasurement {
  std::string name;
  ErrorMetrics error;
  uint64_t argmax_rows = 0;   // rows along the last axis that were compared
  uint64_t argmax_equal = 0;  // of them with the same position of the largest value
};

struct Measurement {
  // Indexed like Model::activations() and Model::layers(); count() == 0: not measured.
  std::vector<ErrorMetrics> activation;
  std::vector<ErrorMetrics> output;
  std::vector<ErrorMetrics> accumulated;
  std::vector<OutputMeasurement> outputs;
  uint64_t samples = 0;
  // Language models only; 0 when not measured.
  double perplexity_original = 0;
  double perplexity_quantized = 0;
};

// Describes how a network is quantized while it is being observed (`propagate: quantized`).
struct Propagation {
  // The scale of an activation, from what was observed of it; nothing where it stays as it is.
  std::function<std::optional<QuantizedActivation>(int activation, const TensorStats& stats)> solve;
  // The codes of a weight; nothing where it stays as it is.
  std::function<std::optional<EncodedWeight>(int weight)> encode;
};

// Flags the layers of a network that are quantized; one flag for each of Model::layers().
using LayerSet = std::vector<bool>;

// Is shown every tensor of an activation that a collecting pass observes, with the number of
// consecutive samples in it.
using ActivationObserver = std::function<void(int activation, const TensorView&, size_t samples)>;

// Says what a source can measure of a whole network.
enum class NetworkErrors {
  kNone,     // it runs layers only
  kOutputs,  // errors of the network's outputs
  kTokens    // these, and how well it predicts tokens
};

class ActivationSource {
 public:
  virtual ~ActivationSource() = default;

  // For the passes to come; empty: nobody.
  void SetObserver(ActivationObserver observer) { observer_ = std::move(observer); }

  // Goes once over the calibration data; returns one record per activation of the model;
  // those not in `wanted` stay empty. Memory does not grow with the number of samples.
  virtual std::vector<TensorStats> Collect(std::span<const int> wanted) = 0;
  // Collects as Collect does, but each block gets what the blocks before it produce once quantized.
  // Throws kUsage where the network does not come in blocks.
  virtual std::vector<TensorStats> CollectPropagated(std::span<const int> wanted,
                                                     const Propagation& propagation);
  // Returns the number of samples that Collect() went through.
  virtual uint64_t samples() const = 0;
  // True when the data was made up (random) instead of read.
  virtual bool synthetic() const = 0;
  virtual NetworkErrors network_errors() const { return NetworkErrors::kOutputs; }

  // Runs the original and the written network side by side over the evaluation data. `quantized`
  // maps activations to how they were quantized, `layers` are those that are quantized: others that
  // share their input read it as it is.
  virtual Measurement Measure(const std::filesystem::path& written,
                              const std::map<int, QuantizedActivation>& quantized,
                              const LayerSet& layers) = 0;
  // Runs, beside the original network, one network for each of `variants`, in which only those
  // layers are as in the written one, over the first `samples` samples (0: all) of the evaluation
  // data. Measures what the networks give in the end (`outputs`, perplexities, `samples`); the
  // lists by layer and activation stay empty. Throws kUsage where no network can be run.
  virtual std::vector<Measurement> MeasureVariants(
      const std::filesystem::path& written, const std::map<int, QuantizedActivation>& quantized,
      std::span<const LayerSet> variants, uint64_t samples);
  // Returns the layer on its own, with names as in lib/model/layer_graph.h, all fp32; nothing where
  // it cannot stand alone.
  virtual std::optional<RunnableGraph> LayerGraph(int /*layer*/) const { return std::nullopt; }

 protected:
  const ActivationObserver& observer() const { return observer_; }

 private:
  ActivationObserver observer_;
};

}  // namespace hif8
