#include "lib/runtime/collect_pass.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "lib/core/error.h"
#include "lib/model/safetensors/decoder.h"

namespace hif8 {
namespace {

constexpr int64_t kHeadPieceElements = int64_t{1} << 25;  // 128 MiB of fp32

// What a part has to observe: the wanted ones of its activations.
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

}  // namespace

void CollectSink::Aim(const PartGraph& part, const std::string& prefix,
                      const Checkpoint& checkpoint, std::vector<TensorStats>* stats) {
  targets_.clear();
  stats_ = stats;
  for (const PartTap& tap : part.taps) {
    targets_.push_back(
        tap.kind == TapKind::kActivation ? checkpoint.ActivationIndex(prefix + tap.name) : -1);
  }
}

void CollectSink::Finish() {
  for (const int index : targets_) {
    if (index >= 0) (*stats_)[static_cast<size_t>(index)].Compact();
  }
}

void CollectSink::Observe(int id, const TensorView& x) {
  const int index = targets_[static_cast<size_t>(id)];
  if (index < 0) return;
  (*stats_)[static_cast<size_t>(index)].Add(x);
  if (observer_) observer_(index, x, 1);
}

CollectPass::CollectPass(const Checkpoint& checkpoint, const CheckpointSourceOptions& options,
                         const Propagation* propagation, const FormatRegistry& formats,
                         LogSink& log)
    : checkpoint_(checkpoint),
      spec_(checkpoint.network().spec),
      propagation_(propagation),
      formats_(formats),
      run_(checkpoint, options.calibration),
      loader_(checkpoint, [this](const std::string& tensor, int64_t begin, int64_t end,
                                 float* values) { ReadQuantized(tensor, begin, end, values); }),
      parts_(checkpoint.network(), formats, &sink_, &log),
      log_(log),
      options_(options) {
  if (propagation_ != nullptr && spec_.experts.count > 0) {
    throw UsageError("propagate: quantized is not available for models with experts",
                     "leave it out (propagate: original)");
  }
  if (options.route_all && spec_.experts.weight_input) {
    throw UsageError(
        "experts.route_all is not available for models that weight what experts read: rows that "
        "an expert does not get have no weight",
        "leave it out");
  }
  memory_ =
      PlanMemory(run_.network(), run_.longest(), 1, propagation_ != nullptr, options_.memory_limit);
}

void CollectPass::Embed(const std::set<int>& wanted, std::vector<TensorStats>* stats) {
  const Network& network = run_.network();
  if (spec_.input == InputType::kTokens) {
    const CheckpointTensor& table = *checkpoint_.Find(network.embedding);
    states_ = run_.Embed(memory_.hidden_states, [&](int64_t begin, int64_t end, float* values) {
      checkpoint_.ReadRows(table, begin, end, values);
    });
  } else {
    states_ = run_.NewStates(memory_.hidden_states);
  }
  if (!spec_.HasFront()) return;
  PartOptions options;
  options.observed = Observed(checkpoint_, wanted, network.prefix, network.Front({}).layers);
  const PartSession& front = parts_.fronts.Get(options);
  sink_.Aim(front.part, network.prefix, checkpoint_, stats);
  const PartGraph* parts[] = {&front.part};
  NamedTensors inputs = loader_.Load(parts, network.prefix);
  for (size_t i = 0; i < run_.samples(); ++i) run_.RunFront(front, &inputs, i, states_.get());
  sink_.Finish();
}

void CollectPass::RunBlocks(int64_t count, const std::set<int>& wanted,
                            std::vector<TensorStats>* stats, const AfterBlock& after) {
  const Network& network = run_.network();
  Embed(wanted, stats);
  Prefetch constants(count, memory_.prefetch, [&](int64_t b) {
    const PartGraph part = network.Block(b, {});
    const PartGraph* parts[] = {&part};
    return loader_.Load(parts, network.BlockPrefix(b));
  });
  HiddenStates* out = propagation_ == nullptr ? states_.get() : nullptr;
  for (int64_t b = 0; b < count; ++b) {
    const std::vector<PartLayer> layers = network.Block(b, {}).layers;
    const bool has_experts = spec_.At(b).kind.sparse;
    PartOptions options;
    options.observed = Observed(checkpoint_, wanted, network.BlockPrefix(b), layers);
    const PartSession& block = parts_.Block(b).Get(options);
    sink_.Aim(block.part, network.BlockPrefix(b), checkpoint_, stats);
    NamedTensors inputs = constants.Take(b);
    const std::unique_ptr<ExpertRouting> routing = run_.Route(b, memory_.hidden_states);
    for (size_t i = 0; i < run_.samples(); ++i) {
      run_.RunBlock(block, b, &inputs, i, states_.get(), out, routing.get());
      log_.Progress("calibrate", static_cast<uint64_t>(b) * run_.samples() + i + 1,
                    static_cast<uint64_t>(count) * run_.samples());
    }
    inputs.clear();
    sink_.Finish();
    if (has_experts) RunExperts(b, wanted, stats, routing.get());
    if (propagation_ != nullptr) RunQuantized(b, layers, *stats);
    if (after) after(b, states_.get());
  }
}

// One expert after the other, each over the rows of all samples that go to it.
void CollectPass::RunExperts(int64_t block, const std::set<int>& wanted,
                             std::vector<TensorStats>* stats, ExpertRouting* routing) {
  const Network& network = run_.network();
  const PartGraph outline = network.Expert({});
  const PartGraph* parts[] = {&outline};
  std::vector<int64_t> active = routing->Active();
  if (options_.route_all) {
    active.resize(static_cast<size_t>(spec_.experts.count));
    std::iota(active.begin(), active.end(), int64_t{0});
  }
  const auto prefix = [&](int64_t at) {
    return network.ExpertPrefix(block, active[static_cast<size_t>(at)]);
  };
  const auto count = static_cast<int64_t>(active.size());
  Prefetch constants(count, memory_.prefetch,
                     [&](int64_t at) { return loader_.Load(parts, prefix(at)); });
  for (int64_t at = 0; at < count; ++at) {
    PartOptions options;
    options.observed = Observed(checkpoint_, wanted, prefix(at), outline.layers);
    const PartSession& expert = parts_.experts.Get(options);
    sink_.Aim(expert.part, prefix(at), checkpoint_, stats);
    NamedTensors inputs = constants.Take(at);
    for (size_t i = 0; i < run_.samples(); ++i) {
      routing->Run(expert, &inputs, active[static_cast<size_t>(at)], i, options_.route_all,
                   states_.get());
    }
    sink_.Finish();
  }
}

void CollectPass::RunQuantized(int64_t block, const std::vector<PartLayer>& layers,
                               const std::vector<TensorStats>& stats) {
  const std::string prefix = run_.network().BlockPrefix(block);
  std::map<int, QuantizedActivation> quantized;
  PartOptions options;
  options.mode = PartMode::kQuantized;
  encoded_.clear();
  for (const PartLayer& layer : layers) {
    for (const std::string& name : {layer.activation, layer.second_activation}) {
      const int index = name.empty() ? -1 : checkpoint_.ActivationIndex(prefix + name);
      if (index < 0 || quantized.contains(index)) continue;
      const auto solved = propagation_->solve(index, stats[static_cast<size_t>(index)]);
      if (solved) quantized[index] = *solved;
    }
    const CheckpointTensor* tensor = checkpoint_.Find(prefix + layer.name + ".weight");
    if (tensor == nullptr || tensor->weight < 0) continue;
    std::optional<EncodedWeight> encoded = propagation_->encode(tensor->weight);
    if (!encoded) continue;
    options.weights.insert(layer.name);
    encoded_[tensor->name()] = std::move(*encoded);
  }
  options.inputs = QuantizedInputs(checkpoint_, quantized, prefix, layers);
  const PartSession& session = parts_.Block(block).Get(options);
  std::vector<TensorStats> none(stats.size());
  sink_.Aim(session.part, prefix, checkpoint_, &none);
  const PartGraph* parts[] = {&session.part};
  NamedTensors inputs = loader_.Load(parts, prefix);
  AddScales(checkpoint_, quantized, session.part, prefix, &inputs);
  for (size_t i = 0; i < run_.samples(); ++i) {
    run_.RunBlock(session, block, &inputs, i, states_.get(), states_.get(), nullptr);
  }
}

void CollectPass::ReadQuantized(const std::string& tensor, int64_t begin, int64_t end,
                                float* values) const {
  const EncodedWeight& encoded = encoded_.at(tensor);
  const auto columns = static_cast<size_t>(checkpoint_.Find(tensor)->entry->shape.back());
  const size_t first = static_cast<size_t>(begin) * columns;
  const size_t count = static_cast<size_t>(end - begin) * columns;
  DecodePart(formats_.Get(encoded.format), std::span(encoded.codes).subspan(first, count),
             encoded.layout, encoded.scales, first, {values, count});
}

void CollectPass::RunNorm(const std::set<int>& wanted, std::vector<TensorStats>* stats) {
  PartOptions options;
  options.observed = Observed(checkpoint_, wanted, "", TailLayers(spec_));
  const PartSession& norm = parts_.norms.Get(options);
  sink_.Aim(norm.part, "", checkpoint_, stats);
  const PartGraph* parts[] = {&norm.part};
  NamedTensors inputs = loader_.Load(parts, "");
  for (size_t i = 0; i < run_.samples(); ++i) run_.RunNorm(norm, &inputs, i, states_.get());
}

void CollectPass::RunHead(
    const std::function<void(size_t sample, int64_t first, const TensorView&)>& take) {
  if (spec_.head.name.empty()) return;
  const PartSession& head = parts_.heads.Get({});
  const int64_t step = std::max<int64_t>(kHeadPieceElements / spec_.hidden, 1);
  for (int64_t first = 0; first < spec_.head.rows; first += step) {
    const int64_t end = std::min(first + step, spec_.head.rows);
    NamedTensors inputs = loader_.LoadHead(run_.network(), first, end);
    for (size_t i = 0; i < run_.samples(); ++i) {
      inputs["normed"] = run_.Normed(i, states_.get());
      take(i, first, head.Run(inputs).view);
    }
  }
}

std::vector<std::vector<float>> CollectPass::Normed() const {
  std::vector<std::vector<float>> all;
  for (size_t i = 0; i < run_.samples(); ++i) {
    std::vector<float> buffer;
    const Tensor normed = run_.Normed(i, states_.get());
    const auto values = AsFloats(normed.view, &buffer);
    all.emplace_back(values.begin(), values.end());
  }
  return all;
}

}  // namespace hif8
