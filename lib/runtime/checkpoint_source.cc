#include "lib/runtime/checkpoint_source.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/interrupt.h"
#include "lib/runtime/network_run.h"
#include "lib/runtime/token_scores.h"

namespace hif8 {
namespace {

// Adds what is observed to the records that the taps stand for.
class CollectSink : public TapSink {
 public:
  void Aim(const PartGraph& part, const std::string& prefix, const Checkpoint& checkpoint,
           std::vector<TensorStats>* stats) {
    targets_.clear();
    for (const PartTap& tap : part.taps) {
      const int index = checkpoint.ActivationIndex(prefix + tap.name);
      targets_.push_back(index < 0 ? nullptr : &(*stats)[static_cast<size_t>(index)]);
    }
  }
  void Observe(int id, const TensorView& x) override {
    if (TensorStats* target = targets_[static_cast<size_t>(id)]) target->Add(x);
  }
  void Compare(int, const TensorView&, const TensorView&) override {}

 private:
  std::vector<TensorStats*> targets_;
};

// What a part has to observe: the wanted activations whose name begins with `prefix`, without it.
std::set<std::string> Observed(const Checkpoint& checkpoint, const std::set<int>& wanted,
                               const std::string& prefix, const std::vector<PartLayer>& layers) {
  std::set<std::string> names;
  for (const PartLayer& layer : layers) {
    for (const std::string& name : {layer.activation, layer.second_activation}) {
      if (!name.empty() && wanted.contains(checkpoint.ActivationIndex(prefix + name))) {
        names.insert(name);
      }
    }
  }
  return names;
}

constexpr int64_t kHeadPieceElements = int64_t{1} << 25;  // 128 MiB of fp32

}  // namespace

CheckpointSource::CheckpointSource(std::shared_ptr<const Checkpoint> checkpoint,
                                   CheckpointSourceOptions options, const FormatRegistry& formats,
                                   LogSink& log)
    : checkpoint_(std::move(checkpoint)),
      options_(std::move(options)),
      formats_(formats),
      log_(log) {
  const DecoderSpec& spec = checkpoint_->network().spec;
  if (options_.evaluation.samples.empty()) options_.evaluation = options_.calibration;
  if (!options_.calibration.samples.empty()) {
    CheckTokenIds(options_.calibration, spec.vocabulary);
  }
  CheckTokenIds(options_.evaluation, spec.vocabulary);
}

// One pass of the original network over the calibration data. The optional members say what is
// wanted from it.
class OriginalPass {
 public:
  OriginalPass(const Checkpoint& checkpoint, const CheckpointSourceOptions& options,
               const FormatRegistry& formats, LogSink& log)
      : checkpoint_(checkpoint),
        spec_(checkpoint.network().spec),
        run_(checkpoint, options.calibration),
        loader_(checkpoint, nullptr, formats),
        blocks_([this](PartOptions o) { return DecoderBlock(spec_, std::move(o)); }, formats,
                &sink_, &log),
        norms_([this](PartOptions o) { return DecoderNorm(spec_, std::move(o)); }, formats, &sink_,
               &log),
        heads_([this](PartOptions o) { return DecoderHead(spec_, std::move(o)); }, formats, &sink_,
               &log),
        log_(log),
        memory_limit_(options.memory_limit) {}

  // Embedding and the first `count` blocks; `after` is called behind each.
  void RunBlocks(int64_t count, const std::set<int>& wanted, std::vector<TensorStats>* stats,
                 const std::function<void(int64_t, HiddenStates*)>& after) {
    const Network& network = run_.network();
    const CheckpointTensor& table = *checkpoint_.Find(network.embedding);
    states_ = run_.Embed(memory_limit_, [&](int64_t begin, int64_t end, float* values) {
      checkpoint_.ReadRows(table, begin, end, values);
    });
    const PartGraph outline = DecoderBlock(spec_, {});
    const PartGraph* parts[] = {&outline};
    Prefetch constants(count,
                       [&](int64_t b) { return loader_.Load(parts, network.BlockPrefix(b)); });
    for (int64_t b = 0; b < count; ++b) {
      PartOptions options;
      options.observed = Observed(checkpoint_, wanted, network.BlockPrefix(b), outline.layers);
      const PartSession& block = blocks_.Get(options);
      sink_.Aim(block.part, network.BlockPrefix(b), checkpoint_, stats);
      NamedTensors inputs = constants.Take(b);
      for (size_t i = 0; i < run_.samples(); ++i) {
        run_.RunBlock(block, b, &inputs, i, states_.get());
        log_.Progress("calibrate", static_cast<uint64_t>(b) * run_.samples() + i + 1,
                      static_cast<uint64_t>(count) * run_.samples());
      }
      if (after) after(b, states_.get());
    }
  }

  void RunNorm(const std::set<int>& wanted, std::vector<TensorStats>* stats) {
    PartOptions options;
    options.observed = Observed(checkpoint_, wanted, "", DecoderHead(spec_, {}).layers);
    const PartSession& norm = norms_.Get(options);
    sink_.Aim(norm.part, "", checkpoint_, stats);
    const PartGraph* parts[] = {&norm.part};
    NamedTensors inputs = loader_.Load(parts, run_.network().prefix);
    for (size_t i = 0; i < run_.samples(); ++i) run_.RunNorm(norm, &inputs, i, states_.get());
  }

  // The head in pieces of the vocabulary, over what RunNorm left.
  void RunHead(const std::function<void(size_t sample, int64_t first, const TensorView&)>& take) {
    const PartSession& head = heads_.Get({});
    const int64_t step = std::max<int64_t>(kHeadPieceElements / spec_.hidden, 1);
    for (int64_t first = 0; first < spec_.vocabulary; first += step) {
      const int64_t end = std::min(first + step, spec_.vocabulary);
      NamedTensors inputs;
      inputs["lm_head.weight"] = loader_.LoadRows(run_.network().head, false, first, end);
      for (size_t i = 0; i < run_.samples(); ++i) {
        inputs["normed"] = FloatTensor(states_->Read(i), {run_.length(i), spec_.hidden});
        take(i, first, head.Run(inputs).view);
      }
    }
  }

  const NetworkRun& run() const { return run_; }
  HiddenStates* states() { return states_.get(); }

 private:
  const Checkpoint& checkpoint_;
  const DecoderSpec& spec_;
  NetworkRun run_;
  ConstantLoader loader_;
  CollectSink sink_;
  PartSessions blocks_, norms_, heads_;
  LogSink& log_;
  uint64_t memory_limit_;
  std::unique_ptr<HiddenStates> states_;
};

std::vector<TensorStats> CheckpointSource::Collect(std::span<const int> wanted) {
  const std::set<int> set(wanted.begin(), wanted.end());
  std::vector<TensorStats> stats(checkpoint_->activations().size());
  const int64_t blocks = checkpoint_->network().spec.blocks;
  // Nothing is computed behind the last block that has something wanted.
  int64_t count = 0;
  bool outside = false;
  for (const Layer& layer : checkpoint_->layers()) {
    if (!set.contains(layer.activation) && !set.contains(layer.second_activation)) continue;
    outside |= layer.block < 0;
    count = std::max<int64_t>(count, layer.block + 1);
  }
  if (outside) count = blocks;
  OriginalPass pass(*checkpoint_, options_, formats_, log_);
  pass.RunBlocks(count, set, &stats, {});
  if (outside) pass.RunNorm(set, &stats);
  return stats;
}

CheckpointSource::Trace CheckpointSource::Run() {
  Trace trace;
  std::vector<TensorStats> stats(checkpoint_->activations().size());
  OriginalPass pass(*checkpoint_, options_, formats_, log_);
  const auto copy = [&](int64_t, HiddenStates* states) {
    auto& block = trace.hidden.emplace_back();
    for (size_t i = 0; i < states->samples(); ++i) {
      const auto values = states->Read(i);
      block.emplace_back(values.begin(), values.end());
    }
  };
  pass.RunBlocks(checkpoint_->network().spec.blocks, {}, &stats, copy);
  pass.RunNorm({}, &stats);
  const auto vocabulary = static_cast<size_t>(checkpoint_->network().spec.vocabulary);
  std::vector<TokenScores> scores;
  for (size_t i = 0; i < pass.run().samples(); ++i) {
    scores.emplace_back(pass.run().ids(i));
    trace.logits.emplace_back(pass.run().ids(i).size() * vocabulary);
  }
  pass.RunHead([&](size_t i, int64_t first, const TensorView& logits) {
    std::vector<float> buffer;
    const auto values = AsFloats(logits, &buffer);
    const auto width = static_cast<size_t>(logits.shape[1]);
    scores[i].Add(values, first, logits.shape[1]);
    for (size_t t = 0; t * width < values.size(); ++t) {
      std::copy_n(values.begin() + static_cast<ptrdiff_t>(t * width), width,
                  trace.logits[i].begin() +
                      static_cast<ptrdiff_t>(t * vocabulary + static_cast<size_t>(first)));
    }
  });
  uint64_t tokens = 0;
  for (const TokenScores& score : scores) {
    trace.loss += score.NegativeLogLikelihood();
    tokens += score.predicted();
  }
  trace.loss /= static_cast<double>(tokens);
  return trace;
}

}  // namespace hif8
