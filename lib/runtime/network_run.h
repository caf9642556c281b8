// One pass of data through a network of a checkpoint. Internal to this module.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/model/safetensors/decoder.h"
#include "lib/runtime/expert_routing.h"
#include "lib/runtime/hidden_states.h"
#include "lib/runtime/part_session.h"
#include "lib/runtime/token_data.h"

namespace hif8 {

// Returns the number of positions of the longest sample.
int64_t Positions(const DecoderSpec& spec, const TokenData& data);

// Holds what all passes share: positions, masks, embeddings.
class NetworkRun {
 public:
  NetworkRun(const Checkpoint& checkpoint, const TokenData& data);

  const Network& network() const { return network_; }
  size_t samples() const { return data_.size(); }
  // Returns the number of positions of the longest sample.
  int64_t longest() const { return longest_; }
  int64_t length(size_t sample) const {
    return data_.images ? longest_ : static_cast<int64_t>(data_.samples[sample].size());
  }
  // Returns the number of rows that the head gets.
  int64_t rows(size_t sample) const {
    return network_.spec.pool.type == Pooling::kNone ? length(sample) : 1;
  }
  // Returns nothing for images.
  std::vector<int64_t> ids(size_t sample) const {
    return data_.images ? std::vector<int64_t>() : data_.samples[sample];
  }

  // Hidden states for all samples, to be written.
  std::unique_ptr<HiddenStates> NewStates(uint64_t memory_limit) const {
    return std::make_unique<HiddenStates>(StateSizes(), memory_limit);
  }
  // Hidden states for all samples, filled with the embeddings of their tokens. `read` gives rows of
  // the embedding.
  std::unique_ptr<HiddenStates> Embed(
      uint64_t memory_limit,
      const std::function<void(int64_t begin, int64_t end, float* values)>& read) const;

  // Runs what stands between tokens or images and the first block, over one sample. `states` has
  // rows of the embedding, or gets what images become.
  void RunFront(const PartSession& front, NamedTensors* constants, size_t sample,
                HiddenStates* states) const;

  // Runs a block over one sample of `in`; `out` gets what comes out (null: nobody), `routing` the
  // rows for the experts of a block that has them.
  void RunBlock(const PartSession& block, int64_t number, NamedTensors* constants, size_t sample,
                HiddenStates* in, HiddenStates* out, ExpertRouting* routing);
  // Returns what RunNorm left of a sample, [rows, hidden]; valid until `states` are read again.
  Tensor Normed(size_t sample, HiddenStates* states) const {
    const auto values = static_cast<size_t>(rows(sample) * network_.spec.hidden);
    return FloatTensor(states->Read(sample).first(values), {rows(sample), network_.spec.hidden});
  }
  // Tells where the rows of a block's experts go; null for a block without experts.
  std::unique_ptr<ExpertRouting> Route(int64_t block, uint64_t memory_limit) const;
  // Runs what stands behind the last block, in place; rows() of what the sample has are left.
  void RunNorm(const PartSession& norm, NamedTensors* constants, size_t sample,
               HiddenStates* states) const;

 private:
  const Tensor& Mask(int64_t length, const MaskSpec& mask);
  const RopeTable& Table(const Rope& rope, int64_t length);
  Shape HiddenShape(size_t sample) const { return {length(sample), network_.spec.hidden}; }

  std::vector<size_t> StateSizes() const;

  const Checkpoint& checkpoint_;
  const Network& network_;
  const TokenData& data_;
  int64_t longest_ = 0;
  std::map<std::pair<const Rope*, bool>, RopeTable> tables_;
  std::vector<float> temperatures_;  // of all positions
  // The last mask of every kind.
  std::map<MaskSpec, std::pair<std::vector<float>, Tensor>> masks_;
};

// Loads the constants of one step while the step before runs or, without `ahead`, when they are
// asked for: then the caller has released those of the step before.
class Prefetch {
 public:
  using Load = std::function<NamedTensors(int64_t step)>;
  Prefetch(int64_t steps, bool ahead, Load load)
      : steps_(steps), ahead_(ahead), load_(std::move(load)) {
    if (ahead_) Start(0);
  }
  // Returns the constants of the step, which must be the next one.
  NamedTensors Take(int64_t step);

 private:
  void Start(int64_t step);
  int64_t steps_;
  bool ahead_;
  Load load_;
  std::future<NamedTensors> next_;
};

}  // namespace hif8
