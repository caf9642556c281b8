#include "lib/runtime/checkpoint_source.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lib/core/error.h"
#include "lib/model/safetensors/linear_graph.h"
#include "lib/runtime/collect_pass.h"
#include "lib/runtime/memory_plan.h"
#include "lib/runtime/network_run.h"
#include "lib/runtime/token_scores.h"

namespace hif8 {
namespace {

// No sample is longer than the network's table of positions.
void CheckPositions(const Checkpoint& checkpoint, const TokenData& data) {
  const Network& network = checkpoint.network();
  const std::string& table = network.spec.embedding.positions;
  if (table.empty()) return;
  const int64_t most = checkpoint.Locate(network.prefix + table).rows;
  const int64_t found = Positions(network.spec, data);
  if (found <= most) return;
  throw ModelError("a sample of " + std::to_string(found) + " positions, the network has " +
                       std::to_string(most),
                   network.spec.input == InputType::kImage
                       ? "does image_size of config.json belong to these files?"
                       : "cut the text: --set data.sequence_length=" + std::to_string(most),
                   data.source);
}

}  // namespace

CheckpointSource::CheckpointSource(std::shared_ptr<const Checkpoint> checkpoint,
                                   CheckpointSourceOptions options, const FormatRegistry& formats,
                                   LogSink& log)
    : checkpoint_(std::move(checkpoint)),
      options_(std::move(options)),
      formats_(formats),
      log_(log) {
  const DecoderSpec& spec = checkpoint_->network().spec;
  if (options_.evaluation.size() == 0) options_.evaluation = options_.calibration;
  if (options_.calibration.size() > 0) {
    CheckTokenIds(options_.calibration, spec.vocabulary);
  }
  CheckTokenIds(options_.evaluation, spec.vocabulary);
  CheckPositions(*checkpoint_, options_.calibration);
  CheckPositions(*checkpoint_, options_.evaluation);
  // Both passes fit, or neither is begun. The second one, of two networks, needs more.
  const auto plan = [&](const TokenData& data, int networks) {
    PlanMemory(checkpoint_->network(), Positions(spec, data), networks, false,
               options_.memory_limit);
  };
  plan(options_.evaluation, 2);
  plan(options_.calibration, 1);
}

NetworkErrors CheckpointSource::network_errors() const {
  return checkpoint_->network().spec.PredictsTokens() ? NetworkErrors::kTokens
                                                      : NetworkErrors::kOutputs;
}

std::vector<TensorStats> CheckpointSource::Collect(std::span<const int> wanted) {
  return Collect(wanted, nullptr);
}

std::vector<TensorStats> CheckpointSource::CollectPropagated(std::span<const int> wanted,
                                                             const Propagation& propagation) {
  return Collect(wanted, &propagation);
}

std::vector<TensorStats> CheckpointSource::Collect(std::span<const int> wanted,
                                                   const Propagation* propagation) {
  if (options_.calibration.size() == 0) {
    throw UsageError("statistics need calibration data, and none was given", "give --data");
  }
  const std::set<int> set(wanted.begin(), wanted.end());
  std::vector<TensorStats> stats(checkpoint_->activations().size());
  // Nothing is computed behind the last block that has something wanted.
  int64_t count = 0;
  bool outside = false;
  for (const Layer& layer : checkpoint_->layers()) {
    if (!set.contains(layer.activation) && !set.contains(layer.second_activation)) continue;
    if (!layer.beside.empty()) continue;
    outside |= layer.block < 0;
    count = std::max<int64_t>(count, layer.block + 1);
  }
  if (outside) count = checkpoint_->network().spec.blocks;
  CollectPass pass(*checkpoint_, options_, propagation, formats_, log_);
  pass.SetObserver(observer());
  pass.RunBlocks(count, set, &stats, {});
  if (outside) pass.RunNorm(set, &stats);
  return stats;
}

std::optional<RunnableGraph> CheckpointSource::LayerGraph(int layer) const {
  return LinearGraph(*checkpoint_, layer);
}

CheckpointSource::Trace CheckpointSource::Run() {
  Trace trace;
  std::vector<TensorStats> stats(checkpoint_->activations().size());
  CollectPass pass(*checkpoint_, options_, nullptr, formats_, log_);
  const auto copy = [&](int64_t, HiddenStates* states) {
    auto& block = trace.hidden.emplace_back();
    for (size_t i = 0; i < states->samples(); ++i) {
      const auto values = states->Read(i);
      block.emplace_back(values.begin(), values.end());
    }
  };
  pass.RunBlocks(checkpoint_->network().spec.blocks, {}, &stats, copy);
  pass.RunNorm({}, &stats);
  const DecoderSpec& spec = checkpoint_->network().spec;
  const auto vocabulary = static_cast<size_t>(spec.head.rows);
  std::vector<TokenScores> scores;
  for (size_t i = 0; i < pass.run().samples(); ++i) {
    const auto rows = static_cast<size_t>(pass.run().rows(i));
    scores.emplace_back(pass.run().ids(i), rows);
    trace.logits.emplace_back(rows * vocabulary);
  }
  if (spec.head.name.empty()) trace.logits = pass.Normed();
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
  if (!spec.PredictsTokens()) return trace;
  uint64_t tokens = 0;
  for (const TokenScores& score : scores) {
    trace.loss += score.NegativeLogLikelihood();
    tokens += score.predicted();
  }
  trace.loss /= static_cast<double>(tokens);
  return trace;
}

}  // namespace hif8
