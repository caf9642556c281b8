// A pass of the calibration data through a checkpoint's network. Internal to this module.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/numeric/tensor_stats.h"
#include "lib/runtime/checkpoint_source.h"
#include "lib/runtime/memory_plan.h"
#include "lib/runtime/network_run.h"
#include "lib/runtime/part_session.h"
#include "lib/runtime/tap_sink.h"

namespace hif8 {

// Adds what is observed to the records that the taps stand for.
class CollectSink : public TapSink {
 public:
  void Aim(const PartGraph& part, const std::string& prefix, const Checkpoint& checkpoint,
           std::vector<TensorStats>* stats);
  // Ends the pass: nothing more comes from the part that was aimed at.
  void Finish();
  void Observe(int id, const TensorView& x) override;
  void Compare(int, const TensorView&, const TensorView&) override {}
  void SetObserver(const ActivationObserver& observer) { observer_ = observer; }

 private:
  std::vector<int> targets_;  // activations, -1: none
  std::vector<TensorStats>* stats_ = nullptr;
  ActivationObserver observer_;
};

class CollectPass {
 public:
  using AfterBlock = std::function<void(int64_t block, HiddenStates* states)>;

  // The arguments must outlive the object. `propagation` null: blocks get what the original ones
  // produce.
  CollectPass(const Checkpoint& checkpoint, const CheckpointSourceOptions& options,
              const Propagation* propagation, const FormatRegistry& formats, LogSink& log);

  // Embedding and the first `count` blocks. `after` may be empty.
  void RunBlocks(int64_t count, const std::set<int>& wanted, std::vector<TensorStats>* stats,
                 const AfterBlock& after);
  // The final norm, over what RunBlocks left.
  void RunNorm(const std::set<int>& wanted, std::vector<TensorStats>* stats);
  // The head in pieces of the vocabulary, over what RunNorm left.
  void RunHead(const std::function<void(size_t sample, int64_t first, const TensorView&)>& take);

  // Returns what RunNorm left, sample by sample.
  std::vector<std::vector<float>> Normed() const;

  const NetworkRun& run() const { return run_; }
  // Is shown what is observed, too.
  void SetObserver(const ActivationObserver& observer) { sink_.SetObserver(observer); }

 private:
  // Makes hidden states of tokens or images.
  void Embed(const std::set<int>& wanted, std::vector<TensorStats>* stats);
  void RunExperts(int64_t block, const std::set<int>& wanted, std::vector<TensorStats>* stats,
                  ExpertRouting* routing);
  // Runs the block once more as it is after quantization, which makes the next block's input.
  void RunQuantized(int64_t block, const std::vector<PartLayer>& layers,
                    const std::vector<TensorStats>& stats);
  void ReadQuantized(const std::string& tensor, int64_t begin, int64_t end, float* values) const;

  const Checkpoint& checkpoint_;
  const DecoderSpec& spec_;
  const Propagation* propagation_;
  const FormatRegistry& formats_;
  NetworkRun run_;
  ConstantLoader loader_;
  CollectSink sink_;
  DecoderParts parts_;
  LogSink& log_;
  const CheckpointSourceOptions& options_;
  MemoryPlan memory_;
  std::unique_ptr<HiddenStates> states_;
  std::map<std::string, EncodedWeight> encoded_;  // of the block at work, by tensor
};

}  // namespace hif8
