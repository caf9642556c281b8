#include "lib/runtime/network_run.h"

#include <algorithm>
#include <utility>

namespace hif8 {

int64_t Positions(const DecoderSpec& spec, const TokenData& data) {
  if (data.images) return spec.image.patches() + (spec.embedding.class_token.empty() ? 0 : 1);
  size_t longest = 0;
  for (const auto& sample : data.samples) longest = std::max(longest, sample.size());
  return static_cast<int64_t>(longest);
}

NetworkRun::NetworkRun(const Checkpoint& checkpoint, const TokenData& data)
    : checkpoint_(checkpoint), network_(checkpoint.network()), data_(data) {
  longest_ = Positions(network_.spec, data);
  temperatures_ = Temperatures(longest_, network_.spec.attention.temperature);
}

std::vector<size_t> NetworkRun::StateSizes() const {
  std::vector<size_t> sizes;
  for (size_t i = 0; i < samples(); ++i) {
    sizes.push_back(static_cast<size_t>(length(i) * network_.spec.hidden));
  }
  return sizes;
}

std::unique_ptr<ExpertRouting> NetworkRun::Route(int64_t block, uint64_t memory_limit) const {
  const ExpertsSpec& experts = network_.spec.experts;
  if (!network_.spec.At(block).kind.sparse) return nullptr;
  std::vector<float> correction;
  if (experts.corrected()) {
    correction.resize(static_cast<size_t>(experts.count));
    checkpoint_.ReadRows(*checkpoint_.Find(network_.CorrectionName(block)), 0, experts.count,
                         correction.data());
  }
  return std::make_unique<ExpertRouting>(experts, std::move(correction), StateSizes(),
                                         static_cast<size_t>(network_.spec.hidden), memory_limit);
}

std::unique_ptr<HiddenStates> NetworkRun::Embed(
    uint64_t memory_limit,
    const std::function<void(int64_t begin, int64_t end, float* values)>& read) const {
  const auto width = static_cast<size_t>(network_.spec.hidden);
  const std::vector<size_t> sizes = StateSizes();
  auto states = std::make_unique<HiddenStates>(sizes, memory_limit);
  std::vector<float> values;
  for (size_t i = 0; i < samples(); ++i) {
    values.resize(sizes[i]);
    const std::vector<int64_t>& tokens = data_.samples[i];
    for (size_t t = 0; t < tokens.size(); ++t) {
      read(tokens[t], tokens[t] + 1, values.data() + t * width);
    }
    const auto factor = static_cast<float>(network_.spec.embedding.multiplier);
    if (factor != 1) {
      for (float& value : values) value *= factor;
    }
    states->Write(i, values);
  }
  return states;
}

// Short sequences of a rope with two sets of frequencies have a table of their own.
const RopeTable& NetworkRun::Table(const Rope& rope, int64_t length) {
  const bool short_one = !rope.long_frequencies.empty() && length <= rope.short_length;
  RopeTable& table = tables_[{&rope, short_one}];
  if (table.cosines.empty()) {
    table = MakeRopeTable(rope, short_one ? std::min(longest_, rope.short_length) : longest_);
  }
  return table;
}

const Tensor& NetworkRun::Mask(int64_t length, const MaskSpec& mask) {
  auto& [values, tensor] = masks_[mask];
  if (tensor.view.shape != Shape{length, length}) {
    values = AttentionMask(length, mask);
    tensor = FloatTensor(values, {length, length});
  }
  return tensor;
}

void NetworkRun::RunBlock(const PartSession& block, int64_t number, NamedTensors* constants,
                          size_t sample, HiddenStates* in, HiddenStates* out,
                          ExpertRouting* routing) {
  const int64_t t = length(sample);
  const BlockSpec& spec = network_.spec.At(number);
  NamedTensors& inputs = *constants;
  inputs["hidden"] = FloatTensor(in->Read(sample), HiddenShape(sample));
  if (spec.kind.rotated) {
    const Rope& rope = spec.local_rope ? network_.spec.local_rope : network_.spec.rope;
    const auto half = static_cast<int64_t>(rope.frequencies.size());
    const auto size = static_cast<size_t>(t * half);
    const RopeTable& table = Table(rope, t);
    inputs["cosines"] = FloatTensor(std::span(table.cosines).first(size), {t, half});
    inputs["sines"] = FloatTensor(std::span(table.sines).first(size), {t, half});
  }
  if (!spec.kind.linear) inputs["mask"] = Mask(t, spec.mask);
  if (spec.kind.tempered) {
    const auto all = std::span<const float>(temperatures_);
    inputs["temperatures"] = FloatTensor(all.first(static_cast<size_t>(t)), {t, 1});
  }
  const std::vector<Tensor> results = block.RunAll(inputs);
  std::vector<float> buffer;
  if (out != nullptr) out->Write(sample, AsFloats(results.at(0).view, &buffer));
  if (routing != nullptr) routing->Take(sample, results.at(1).view, results.at(2).view);
}

void NetworkRun::RunFront(const PartSession& front, NamedTensors* constants, size_t sample,
                          HiddenStates* states) const {
  NamedTensors& inputs = *constants;
  DataRun image;
  if (data_.images) {
    image = data_.images->Read(sample);
    inputs["pixel_values"] = image.inputs.at("pixel_values");
  } else {
    inputs["embedded"] = FloatTensor(states->Read(sample), HiddenShape(sample));
  }
  const Tensor out = front.Run(inputs);
  std::vector<float> buffer;
  states->Write(sample, AsFloats(out.view, &buffer));
}

void NetworkRun::RunNorm(const PartSession& norm, NamedTensors* constants, size_t sample,
                         HiddenStates* states) const {
  NamedTensors& inputs = *constants;
  inputs["hidden"] = FloatTensor(states->Read(sample), HiddenShape(sample));
  const Tensor out = norm.Run(inputs);
  std::vector<float> buffer;
  states->Write(sample, AsFloats(out.view, &buffer));
}

void Prefetch::Start(int64_t step) {
  if (step < steps_) next_ = std::async(std::launch::async, load_, step);
}

NamedTensors Prefetch::Take(int64_t step) {
  if (!ahead_) return load_(step);
  NamedTensors tensors = next_.get();
  Start(step + 1);
  return tensors;
}

}  // namespace hif8
