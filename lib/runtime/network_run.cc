#include "lib/runtime/network_run.h"

#include <algorithm>
#include <utility>

namespace hif8 {

NetworkRun::NetworkRun(const Checkpoint& checkpoint, const TokenData& data)
    : checkpoint_(checkpoint), network_(checkpoint.network()), data_(data) {
  for (size_t i = 0; i < samples(); ++i) longest_ = std::max(longest_, length(i));
  table_ = MakeRopeTable(network_.spec.rope, longest_);
}

std::vector<size_t> NetworkRun::StateSizes() const {
  std::vector<size_t> sizes;
  for (size_t i = 0; i < samples(); ++i) {
    sizes.push_back(ids(i).size() * static_cast<size_t>(network_.spec.hidden));
  }
  return sizes;
}

std::unique_ptr<ExpertRouting> NetworkRun::Route(int64_t block, uint64_t memory_limit) const {
  const ExpertsSpec& experts = network_.spec.experts;
  if (!experts.HasExperts(block)) return nullptr;
  std::vector<float> correction;
  if (experts.corrected) {
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
    for (size_t t = 0; t < ids(i).size(); ++t) {
      read(ids(i)[t], ids(i)[t] + 1, values.data() + t * width);
    }
    states->Write(i, values);
  }
  return states;
}

const Tensor& NetworkRun::Mask(int64_t length, int64_t window) {
  auto& [values, tensor] = masks_[window];
  if (tensor.view.shape != Shape{length, length}) {
    values = AttentionMask(length, window);
    tensor = FloatTensor(values, {length, length});
  }
  return tensor;
}

void NetworkRun::RunBlock(const PartSession& block, int64_t number, NamedTensors* constants,
                          size_t sample, HiddenStates* in, HiddenStates* out,
                          ExpertRouting* routing) {
  const int64_t t = length(sample);
  const auto half = static_cast<int64_t>(network_.spec.rope.frequencies.size());
  const auto size = static_cast<size_t>(t * half);
  NamedTensors& inputs = *constants;
  inputs["hidden"] = FloatTensor(in->Read(sample), HiddenShape(sample));
  inputs["cosines"] = FloatTensor(std::span(table_.cosines).first(size), {t, half});
  inputs["sines"] = FloatTensor(std::span(table_.sines).first(size), {t, half});
  inputs["mask"] = Mask(t, network_.spec.windows[static_cast<size_t>(number)]);
  const std::vector<Tensor> results = block.RunAll(inputs);
  std::vector<float> buffer;
  if (out != nullptr) out->Write(sample, AsFloats(results.at(0).view, &buffer));
  if (routing != nullptr) routing->Take(sample, results.at(1).view, results.at(2).view);
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
