// Runs a checkpoint's network over tokens or images, block after block: memory holds one block (and
// the next one, being read), not the model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "lib/core/log.h"
#include "lib/core/memory.h"
#include "lib/model/safetensors/checkpoint.h"
#include "lib/numeric/number_format.h"
#include "lib/runtime/activation_source.h"
#include "lib/runtime/token_data.h"

namespace hif8 {

struct CheckpointSourceOptions {
  TokenData calibration;
  TokenData evaluation;  // without samples: the calibration data
  // Own memory that a pass may take, see PlanMemory(). Hidden states that find no room go to a
  // temporary file.
  uint64_t memory_limit = MemoryLimit();
  // Every row through every expert, for statistics only.
  bool route_all = false;
};

class CheckpointSource : public ActivationSource {
 public:
  // Throws kModel when the architecture is not known or not supported, and for ids outside the
  // vocabulary, kEnvironment when a part of it does not fit into memory. `formats` and `log` must
  // outlive the object.
  CheckpointSource(std::shared_ptr<const Checkpoint> checkpoint, CheckpointSourceOptions options,
                   const FormatRegistry& formats, LogSink& log);

  std::vector<TensorStats> Collect(std::span<const int> wanted) override;
  std::vector<TensorStats> CollectPropagated(std::span<const int> wanted,
                                             const Propagation& propagation) override;
  uint64_t samples() const override { return options_.calibration.samples.size(); }
  bool synthetic() const override { return false; }
  NetworkErrors network_errors() const override;
  // Outputs: "logits", with argmax agreement, or "output" where there is no head; perplexities over
  // every token but each sample's first, of networks that predict them.
  Measurement Measure(const std::filesystem::path& written,
                      const std::map<int, QuantizedActivation>& quantized,
                      const LayerSet& layers) override;
  std::vector<Measurement> MeasureVariants(const std::filesystem::path& written,
                                           const std::map<int, QuantizedActivation>& quantized,
                                           std::span<const LayerSet> variants,
                                           uint64_t samples) override;
  std::optional<RunnableGraph> LayerGraph(int layer) const override;

  // The original network's hidden states after each block (what Collect() runs through) and logits
  // of the calibration data; for tests and small models.
  struct Trace {
    std::vector<std::vector<std::vector<float>>> hidden;  // [block][sample]
    // [sample], [rows, vocabulary]; without a head what would go there.
    std::vector<std::vector<float>> logits;
    double loss = 0;  // mean negative log likelihood of every token but each sample's first, or 0
  };
  Trace Run();

 private:
  std::vector<TensorStats> Collect(std::span<const int> wanted, const Propagation* propagation);

  std::shared_ptr<const Checkpoint> checkpoint_;
  CheckpointSourceOptions options_;
  const FormatRegistry& formats_;
  LogSink& log_;
};

}  // namespace hif8
