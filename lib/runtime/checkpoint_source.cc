#include "lib/runtime/checkpoint_source.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lib/core/error.h"
#include "lib/model/layer_graph.h"
#include "lib/model/onnx/graph_builder.h"
#include "lib/runtime/collect_pass.h"
#include "lib/runtime/memory_plan.h"
#include "lib/runtime/token_scores.h"

namespace hif8 {
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
  // Both passes fit, or neither is begun. The second one, of two networks, needs more.
  const auto plan = [&](const TokenData& data, int networks) {
    size_t rows = 0;
    for (const auto& sample : data.samples) rows = std::max(rows, sample.size());
    PlanMemory(checkpoint_->network(), static_cast<int64_t>(rows), networks, false,
               options_.memory_limit);
  };
  plan(options_.evaluation, 2);
  plan(options_.calibration, 1);
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
  if (options_.calibration.samples.empty()) {
    throw UsageError("statistics need calibration data, and none was given", "give --data");
  }
  const std::set<int> set(wanted.begin(), wanted.end());
  std::vector<TensorStats> stats(checkpoint_->activations().size());
  // Nothing is computed behind the last block that has something wanted.
  int64_t count = 0;
  bool outside = false;
  for (const Layer& layer : checkpoint_->layers()) {
    if (!set.contains(layer.activation) && !set.contains(layer.second_activation)) continue;
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

std::optional<RunnableGraph> CheckpointSource::LayerGraph(int index) const {
  const Layer& layer = checkpoint_->layers().at(static_cast<size_t>(index));
  if (layer.op != "Linear" || layer.weight < 0) return std::nullopt;
  const Shape& shape = checkpoint_->weights()[static_cast<size_t>(layer.weight)].shape;
  if (shape.size() != 2) return std::nullopt;
  GraphBuilder graph;
  std::vector<std::string> inputs = {graph.Input(kLayerInput, DType::kF32, {-1, shape[1]}),
                                     graph.Input(kLayerWeight, DType::kF32, shape)};
  if (const CheckpointTensor* bias = checkpoint_->Find(layer.name + ".bias")) {
    std::vector<float> values(static_cast<size_t>(shape[0]));
    checkpoint_->ReadRows(*bias, 0, shape[0], values.data());
    inputs.push_back(graph.Floats({shape[0]}, values));
  }
  graph.Output(graph.Node("Gemm", inputs, {{"transB", int64_t{1}}}), kLayerResult, DType::kF32,
               {-1, shape[0]});
  return graph.Finish();
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
