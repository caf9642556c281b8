// A model made in a test: layers, weights and activations as given, weights from memory.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "lib/model/model.h"

namespace hif8 {

class FakeModel : public Model {
 public:
  // Adds a Linear layer [out, in] with its own activation; returns its index.
  int AddLinear(const std::string& name, int64_t out, int64_t in, std::vector<float> values = {}) {
    const int weight = AddWeight(name + ".weight", {out, in}, std::move(values));
    activations_.push_back({name + ".input"});
    Layer layer;
    layer.name = name;
    layer.op = "Linear";
    layer.weight = weight;
    layer.activation = static_cast<int>(activations_.size()) - 1;
    layer.macs = static_cast<double>(out * in);
    layers_.push_back(std::move(layer));
    return static_cast<int>(layers_.size()) - 1;
  }

  int AddWeight(const std::string& name, const Shape& shape, std::vector<float> values = {}) {
    values.resize(ElementCount(shape), 1.0F);
    Weight weight;
    weight.name = name;
    weight.shape = shape;
    weight.channels = ChannelLayout::Axis(shape, 0);
    weights_.push_back(weight);
    std::byte* data = nullptr;
    tensors_.push_back(Tensor::Allocate(DType::kF32, shape, &data));
    std::memcpy(data, values.data(), values.size() * sizeof(float));
    return static_cast<int>(weights_.size()) - 1;
  }

  std::vector<Layer>& mutable_layers() { return layers_; }
  std::vector<Activation>& mutable_activations() { return activations_; }

  std::string_view kind() const override { return "onnx"; }
  const std::filesystem::path& path() const override { return path_; }
  const std::vector<Layer>& layers() const override { return layers_; }
  const std::vector<Weight>& weights() const override { return weights_; }
  const std::vector<Activation>& activations() const override { return activations_; }
  uint64_t parameter_count() const override {
    uint64_t count = 0;
    for (const Weight& weight : weights_) count += weight.size();
    return count;
  }
  Tensor ReadWeight(int index) const override { return tensors_.at(static_cast<size_t>(index)); }
  Fingerprint ComputeFingerprint() const override { return {"fake", std::string(32, '0'), 4}; }

 private:
  std::filesystem::path path_ = "fake.onnx";
  std::vector<Layer> layers_;
  std::vector<Weight> weights_;
  std::vector<Activation> activations_;
  std::vector<Tensor> tensors_;
};

}  // namespace hif8
