#include "lib/model/safetensors/checkpoint.h"

#include <algorithm>
#include <numeric>

#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/output_dir.h"
#include "lib/core/parallel.h"
#include "lib/model/safetensors/tensor_roles.h"

namespace hif8 {
namespace {

DType OwnDType(const ModelConfig& config) {
  std::string name = config.String("torch_dtype", config.String("dtype", "bfloat16"));
  if (name.starts_with("torch.")) name.erase(0, 6);
  if (name == "float16") return DType::kF16;
  if (name == "float32") return DType::kF32;
  return DType::kBF16;
}

bool IsParameter(DType dtype) { return IsFloat(dtype) || dtype == DType::kF8E4M3; }

}  // namespace

std::shared_ptr<const Checkpoint> Checkpoint::Open(const std::filesystem::path& path) {
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint());
  checkpoint->path_ = path;
  checkpoint->files_ = FindShards(path);
  checkpoint->is_file_ = !std::filesystem::is_directory(path);
  checkpoint->ReadConfig();
  checkpoint->fp8_blocks_ = CheckSourceQuantization(checkpoint->config_, checkpoint->files_);
  checkpoint->AddTensors();
  checkpoint->ConnectLayers();
  return checkpoint;
}

void Checkpoint::ReadConfig() {
  const std::filesystem::path file = path_ / "config.json";
  if (is_file_ || !std::filesystem::exists(file)) return;
  config_ = ModelConfig::Parse(ReadFile(file), file.string());
  own_dtype_ = OwnDType(config_);
}

void Checkpoint::AddTensors() {
  for (const auto& shard : files_.shards) {
    for (const SafetensorsEntry& entry : shard->tensors()) {
      by_name_.emplace(entry.name, tensors_.size());
      tensors_.push_back({shard.get(), &entry});
    }
  }
  MarkCompanions();
  for (CheckpointTensor& tensor : tensors_) {
    if (tensor.companion || !IsParameter(tensor.entry->dtype)) continue;
    parameter_count_ += ElementCount(tensor.entry->shape);
    AddLayer(&tensor);
  }
}

void Checkpoint::MarkCompanions() {
  for (CheckpointTensor& tensor : tensors_) {
    if (tensor.entry->dtype != DType::kF8E4M3) continue;
    const std::string& name = tensor.name();
    if (!name.ends_with(".weight") || tensor.entry->shape.size() != 2) {
      throw ModelError("tensor '" + name + "' is FP8 of shape " + ShapeText(tensor.entry->shape) +
                           "; only weights of two dimensions are read",
                       "give the checkpoint in BF16", tensor.shard->path().string());
    }
    tensor.scale = tensor.shard->Find(Fp8ScaleName(*tensor.shard, name));
    const std::string module = name.substr(0, name.size() - std::string(".weight").size());
    for (const char* suffix : kFp8CompanionSuffixes) {
      const auto it = by_name_.find(module + suffix);
      if (it != by_name_.end()) tensors_[it->second].companion = true;
    }
  }
}

void Checkpoint::AddLayer(CheckpointTensor* tensor) {
  const Shape& shape = tensor->entry->shape;
  TensorPlace place = PlaceTensor(tensor->name(), shape);
  if (place.role == TensorRole::kOther) return;
  Layer layer;
  layer.name = place.module;
  layer.op = place.role == TensorRole::kEmbedding ? "Embedding" : "Linear";
  layer.weight = static_cast<int>(weights_.size());
  const int64_t block_count = config_.Integer("num_hidden_layers", INT64_MAX);
  layer.block = place.block < block_count ? place.block : -1;
  const size_t size = ElementCount(shape);
  layer.macs = place.role == TensorRole::kEmbedding ? 0 : static_cast<double>(size);
  if (place.role == TensorRole::kHead) layer.option = "lm_head";
  if (place.role == TensorRole::kEmbedding) layer.option = "embeddings";
  layer.optional = !layer.option.empty();
  if (place.role == TensorRole::kRouter) layer.unsupported = "routers stay in high precision";
  if (size == 0) layer.unsupported = "the weight is empty";

  Weight weight;
  weight.name = tensor->name();
  weight.dtype = tensor->scale != nullptr ? DType::kF32 : tensor->entry->dtype;
  weight.shape = shape;
  const auto rows = static_cast<size_t>(shape[shape.size() - 2]);
  const auto columns = static_cast<size_t>(shape[shape.size() - 1]);
  weight.channels = {shape.size() == 3 ? static_cast<size_t>(shape[0]) : 1, 1, rows, columns};
  tensor->weight = layer.weight;
  layer_index_.emplace(layer.name, static_cast<int>(layers_.size()));
  tensor_of_weight_.push_back(static_cast<size_t>(tensor - tensors_.data()));
  weights_.push_back(std::move(weight));
  layers_.push_back(std::move(layer));
}

int Checkpoint::AddActivation(const std::string& name) {
  const auto [it, added] = activation_index_.emplace(name, static_cast<int>(activations_.size()));
  if (added) activations_.push_back({name});
  return it->second;
}

void Checkpoint::ConnectPart(const std::string& prefix, const std::vector<PartLayer>& part,
                             int block) {
  for (const PartLayer& described : part) {
    const std::string name = prefix + described.name;
    auto [it, added] = layer_index_.emplace(name, static_cast<int>(layers_.size()));
    if (added) {
      Layer layer;
      layer.name = name;
      layer.op = described.op;
      layer.block = block;
      layer.optional = true;
      layer.option = described.option;
      layers_.push_back(std::move(layer));
    }
    Layer& layer = layers_[static_cast<size_t>(it->second)];
    layer.activation = AddActivation(prefix + described.activation);
    if (!described.second_activation.empty()) {
      layer.second_activation = AddActivation(prefix + described.second_activation);
    }
  }
}

// Gives every layer its input: from the architecture, or one of its own where that is not known.
void Checkpoint::ConnectLayers() {
  try {
    network_ = DescribeNetwork(*this);
    const std::vector<PartLayer> expert = DecoderExpert(network_->spec, {}).layers;
    for (int64_t i = 0; i < network_->spec.blocks; ++i) {
      ConnectPart(network_->BlockPrefix(i), network_->Block(i, {}).layers, static_cast<int>(i));
      if (!network_->spec.experts.HasExperts(i)) continue;
      for (int64_t e = 0; e < network_->spec.experts.count; ++e) {
        ConnectPart(network_->ExpertPrefix(i, e), expert, static_cast<int>(i));
      }
    }
    if (!network_->spec.tied) ConnectPart("", DecoderHead(network_->spec, {}).layers, -1);
  } catch (const Error& error) {
    network_problem_ = error;
  }
  for (Layer& layer : layers_) {
    if (layer.op == "Linear" && layer.activation < 0) {
      layer.activation = AddActivation(layer.name + ".input");
    }
  }
}

const Network& Checkpoint::network() const {
  if (network_problem_) throw Error(*network_problem_);
  return *network_;
}

int Checkpoint::LayerIndex(const std::string& name) const {
  const auto it = layer_index_.find(name);
  return it == layer_index_.end() ? -1 : it->second;
}

int Checkpoint::ActivationIndex(const std::string& name) const {
  const auto it = activation_index_.find(name);
  return it == activation_index_.end() ? -1 : it->second;
}

const CheckpointTensor& Checkpoint::FindShaped(const std::string& name, const Shape& shape) const {
  const CheckpointTensor* tensor = Find(name);
  if (tensor == nullptr) {
    throw ModelError("tensor '" + name + "' is missing", "does config.json belong to these files?",
                     path_.string());
  }
  const Shape& found = tensor->entry->shape;
  bool fits = found.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) fits = shape[i] < 0 || shape[i] == found[i];
  if (!fits || !IsParameter(tensor->entry->dtype)) {
    throw ModelError("tensor '" + name + "': expected shape " + ShapeText(shape) + ", found " +
                         std::string(DTypeName(tensor->entry->dtype)) + " " + ShapeText(found),
                     "does config.json belong to these files?", tensor->shard->path().string());
  }
  return *tensor;
}

const CheckpointTensor* Checkpoint::Find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

Fp8Weight Checkpoint::ReadFp8(const CheckpointTensor& tensor) const {
  return Fp8Weight(tensor.shard->Read(*tensor.entry).view, tensor.shard->Read(*tensor.scale).view,
                   fp8_blocks_, tensor.name(), tensor.shard->path().string());
}

Tensor Checkpoint::Read(const CheckpointTensor& tensor) const {
  if (tensor.scale == nullptr) return tensor.shard->Read(*tensor.entry);
  const Fp8Weight weight = ReadFp8(tensor);
  std::byte* bytes = nullptr;
  Tensor result = Tensor::Allocate(DType::kF32, tensor.entry->shape, &bytes);
  weight.Decode(0, weight.rows(), reinterpret_cast<float*>(bytes));
  return result;
}

void Checkpoint::ReadRows(const CheckpointTensor& tensor, int64_t begin, int64_t end,
                          float* values) const {
  if (tensor.scale != nullptr) return ReadFp8(tensor).Decode(begin, end, values);
  const SafetensorsEntry& entry = *tensor.entry;
  if (begin == end) return;
  const size_t row = ElementCount(entry.shape) / static_cast<size_t>(entry.shape[0]);
  const std::byte* data = tensor.shard->Bytes(entry).data();
  ConvertToFloat(entry.dtype, data + static_cast<size_t>(begin) * row * DTypeSize(entry.dtype),
                 static_cast<size_t>(end - begin) * row, values);
}

Tensor Checkpoint::ReadWeight(int index) const { return Read(tensor_of_weight(index)); }

Fingerprint Checkpoint::ComputeFingerprint() const {
  std::call_once(fingerprint_made_, [this] { fingerprint_ = MakeFingerprint(); });
  return fingerprint_;
}

Fingerprint Checkpoint::MakeFingerprint() const {
  Fingerprint fingerprint;
  for (const auto& shard : files_.shards) {
    if (!fingerprint.files.empty()) fingerprint.files += ", ";
    fingerprint.files +=
        shard->path().filename().string() + " (" + std::to_string(shard->file_bytes()) + " bytes)";
    fingerprint.file_bytes += shard->file_bytes();
  }
  // In order of name, so that the same tensors in other shards are the same model.
  std::vector<const CheckpointTensor*> order;
  for (const CheckpointTensor& tensor : tensors_) order.push_back(&tensor);
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return a->name() < b->name(); });
  std::vector<std::string> hashes(order.size());
  ParallelFor(order.size(), [&](size_t i) {
    Hasher hasher;
    const SafetensorsEntry& entry = *order[i]->entry;
    hasher.Update(entry.name + " " + std::string(DTypeName(entry.dtype)) + ShapeText(entry.shape));
    hasher.Update(order[i]->shard->Bytes(entry));
    hashes[i] = hasher.Hex();
  });
  Hasher all;
  for (const std::string& hash : hashes) all.Update(hash);
  fingerprint.hash = all.Hex();
  return fingerprint;
}

}  // namespace hif8
