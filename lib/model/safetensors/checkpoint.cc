#include "lib/model/safetensors/checkpoint.h"

#include <algorithm>
#include <numeric>

#include "lib/core/error.h"
#include "lib/core/input_file.h"
#include "lib/model/safetensors/fused_modules.h"
#include "lib/model/safetensors/layer_roles.h"
#include "lib/model/safetensors/quantization_config.h"
#include "lib/model/safetensors/source_quantization.h"
#include "lib/model/safetensors/tensor_roles.h"

namespace hif8 {
namespace {

constexpr const char* kDescriptionFile = "hif8_architecture.yaml";

}  // namespace

std::shared_ptr<const Checkpoint> Checkpoint::Open(const std::filesystem::path& path,
                                                   const FormatRegistry& formats,
                                                   std::optional<CheckpointPart> part,
                                                   bool whole_fingerprint,
                                                   std::optional<Description> description,
                                                   bool head_caches) {
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint());
  checkpoint->part_ = part;
  checkpoint->whole_fingerprint_ = whole_fingerprint;
  checkpoint->head_caches_ = head_caches;
  checkpoint->path_ = path;
  checkpoint->files_ = FindShards(path);
  checkpoint->is_file_ = !std::filesystem::is_directory(path);
  checkpoint->description_ = std::move(description);
  checkpoint->ReadConfig();
  CheckSourceQuantization(checkpoint->config_, checkpoint->files_);
  checkpoint->OpenCodes(formats);
  checkpoint->AddTensors();
  checkpoint->ConnectLayers();
  return checkpoint;
}

bool Checkpoint::Writes(const SafetensorsFile& shard) const {
  if (!part_) return true;
  for (size_t i = 0; i < files_.shards.size(); ++i) {
    if (files_.shards[i].get() == &shard) return part_->HoldsFile(i, files_.shards.size());
  }
  return false;
}

void Checkpoint::ReadConfig() {
  const std::filesystem::path file = path_ / "config.json";
  if (is_file_ || !std::filesystem::exists(file)) return;
  config_ = ModelConfig::Parse(ReadFile(file, kMaxSettingsBytes), file.string());
  own_dtype_ = OwnDType(config_);
  config_.Bool("tie_word_embeddings", false);  // read again when the weights are written
  const std::filesystem::path own = path_ / kDescriptionFile;
  if (!description_ && std::filesystem::exists(own)) description_ = ReadDescription(own);
}

void Checkpoint::OpenCodes(const FormatRegistry& formats) {
  if (!MayHoldCodes(files_)) return;
  codes_ = OpenStoredCheckpoint(path_, files_, formats);
  for (size_t i = 0; i < codes_->tensors().size(); ++i) code_index_.emplace(&codes_->entry(i), i);
  // It describes what is no longer so.
  std::erase(files_.side_files, "hf_quant_config.json");
}

// As it stands in the file, or what its codes stand for.
CheckpointTensor Checkpoint::Describe(const SafetensorsFile& shard, const SafetensorsEntry& entry) {
  CheckpointTensor tensor{&shard, &entry, &entry};
  if (codes_ == nullptr) return tensor;
  const auto at = code_index_.find(&entry);
  tensor.companion = at == code_index_.end();
  if (tensor.companion) return tensor;
  const StoredTensor& stored = codes_->tensors()[at->second];
  const std::string where = shard.path().string();
  const std::string quoted = "tensor '" + entry.name + "'";
  const bool fp8 = entry.dtype == DType::kF8E4M3 || entry.dtype == DType::kF8E5M2;
  if (fp8 && codes_->scale_file(at->second) == nullptr) {
    throw ModelError(quoted + " is FP8 but has no '" + entry.name + "_scale_inv' or '" +
                         entry.name + "_scale' in any shard",
                     "give the checkpoint that it was made from, in BF16, FP16, FP32 or FP8",
                     where);
  }
  // Bytes with scales are this program's own.
  const bool own = entry.dtype == DType::kU8 && entry.bytes() == stored.size();
  if (!stored.layers.empty() && !IsFloat(entry.dtype) && HasKnownValues(entry.dtype) &&
      (own || !stored.HasValues())) {
    throw AlreadyQuantized(std::string(DTypeName(entry.dtype)) + " weights, " + quoted +
                               (stored.unknown.empty() ? "" : ": " + stored.unknown),
                           where);
  }
  if (stored.format.empty()) return tensor;
  Shape shape = stored.shape;
  if (stored.turned) std::swap(shape[1], shape[2]);
  decoded_.push_back({stored.name, DType::kF32, std::move(shape), entry.begin, entry.end});
  tensor.entry = &decoded_.back();
  tensor.scale_file = codes_->scale_file(at->second);
  return tensor;
}

void Checkpoint::AddTensors() {
  for (const auto& shard : files_.shards) {
    for (const SafetensorsEntry& entry : shard->tensors()) {
      if (files_.ignored.contains(&entry)) continue;
      tensors_.push_back(Describe(*shard, entry));
      by_name_.emplace(tensors_.back().name(), tensors_.size() - 1);
    }
  }
  for (CheckpointTensor& tensor : tensors_) {
    const DType dtype = tensor.entry->dtype;
    if (tensor.companion || (!IsFloat(dtype) && HasKnownValues(dtype))) continue;
    if (IsFloat(dtype)) parameter_count_ += ElementCount(tensor.entry->shape);
    AddLayer(&tensor);
  }
}

void Checkpoint::AddLayer(CheckpointTensor* tensor) {
  const Shape& shape = tensor->entry->shape;
  const TensorPlace place = PlaceTensor(tensor->name(), shape);
  if (place.role == TensorRole::kOther) return;
  Layer layer;
  layer.name = place.module;
  layer.op = "Linear";
  layer.weight = static_cast<int>(weights_.size());
  if (ElementCount(shape) == 0) layer.unsupported = "the weight is empty";
  if (!HasKnownValues(tensor->entry->dtype)) {
    layer.unsupported = "values of type " + std::string(tensor->entry->type()) + " are not read";
  }

  Weight weight;
  weight.name = tensor->name();
  weight.dtype = tensor->entry->dtype;
  weight.shape = shape;
  const bool experts = place.role == TensorRole::kExperts;
  const size_t outer = experts ? static_cast<size_t>(shape[0]) : 1;
  const auto rows = static_cast<size_t>(shape[experts ? 1 : 0]);
  const size_t inputs = rows == 0 || outer == 0 ? 0 : ElementCount(shape) / (outer * rows);
  weight.channels = {outer, 1, rows, inputs};
  weight.kernel = place.role == TensorRole::kConv;
  // DeepSeek-V4: one product for each run of o_lora_rank rows.
  const int64_t rank = config_.Integer("o_lora_rank", 0);
  if (rank > 0 && layer.name.ends_with(".attn.wo_a") && shape[0] % rank == 0) {
    weight.row_groups = static_cast<size_t>(shape[0] / rank);
  }
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
      layer.optional = true;
      layer.option = described.option;
      layers_.push_back(std::move(layer));
    }
    Layer& layer = layers_[static_cast<size_t>(it->second)];
    layer.block = block;
    layer.kind = described.kind;
    layer.op = described.op;
    layer.activation = AddActivation(prefix + described.activation);
    if (!described.second_activation.empty()) {
      layer.second_activation = AddActivation(prefix + described.second_activation);
      activations_[static_cast<size_t>(layer.second_activation)].input_axis = described.second_axis;
    }
  }
}

// All experts of a block in two tensors: each is one layer with one input, and what is observed of
// any expert counts for it.
void Checkpoint::ConnectFusedExperts(int64_t block) {
  const std::string prefix = network_->FusedExpertsPrefix(block);
  const ExpertsSpec& experts = network_->spec.experts;
  ConnectPart(
      prefix,
      {{experts.fused_gate_up, LayerKind::kWeight, "Linear", experts.fused_gate_up + ".input", "",
        ""},
       {experts.fused_down, LayerKind::kWeight, "Linear", experts.fused_down + ".input", "", ""}},
      static_cast<int>(block));
  const auto add = [&](int64_t expert, const std::string& name, const std::string& fused,
                       int64_t first, int64_t rows) {
    const std::string alias = network_->ExpertPrefix(block, expert) + name;
    slices_[alias + ".weight"] = {Find(prefix + fused), first, rows};
    if (experts.bias) slices_[alias + "_bias"] = {Find(prefix + fused + "_bias"), expert, 1};
    layer_index_[alias] = layer_index_.at(prefix + fused);
    activation_index_[alias + ".input"] = activation_index_.at(prefix + fused + ".input");
  };
  const int64_t rows = experts.intermediate;
  const int64_t hidden = network_->spec.hidden;
  for (int64_t e = 0; e < experts.count; ++e) {
    if (experts.layout == ExpertLayout::kInOut) {
      add(e, experts.fused_gate_up, experts.fused_gate_up, e * hidden, hidden);
      add(e, experts.fused_down, experts.fused_down, e * rows, rows);
      continue;
    }
    add(e, experts.gate, experts.fused_gate_up, 2 * e * rows, rows);
    add(e, experts.up, experts.fused_gate_up, (2 * e + 1) * rows, rows);
    add(e, experts.down, experts.fused_down, e * hidden, hidden);
  }
}

// Gives every layer its input: from the architecture, or one of its own where that is not known.
void Checkpoint::ConnectLayers() {
  try {
    network_ = DescribeNetwork(*this);
    const std::vector<PartLayer> expert = network_->Expert({}).layers;
    for (int64_t i = 0; i < network_->spec.blocks; ++i) {
      ConnectPart(network_->BlockPrefix(i), network_->Block(i, {}).layers, static_cast<int>(i));
      if (!network_->spec.At(i).kind.sparse) continue;
      if (network_->fused_experts) {
        ConnectFusedExperts(i);
        continue;
      }
      for (int64_t e = 0; e < network_->spec.experts.count; ++e) {
        ConnectPart(network_->ExpertPrefix(i, e), expert, static_cast<int>(i));
      }
    }
    if (network_->spec.HasFront()) {
      ConnectPart(network_->prefix, network_->Front({}).layers, -1);
    }
    ConnectPart("", TailLayers(network_->spec), -1);
  } catch (const Error& error) {
    network_problem_ = error;
  }
  AssignRoles(network_ ? &*network_ : nullptr, config_, &layers_, &weights_);
  for (Layer& layer : layers_) {
    if ((layer.op == "Linear" || layer.op == "Conv") && layer.activation < 0) {
      layer.activation = AddActivation(layer.name + ".input");
    }
    // [samples, channels, ...]
    if (layer.op == "Conv") activations_[static_cast<size_t>(layer.activation)].input_axis = 1;
  }
  NameFusedModules(network_ ? &network_->spec : nullptr, &layers_);
}

std::string Checkpoint::caveat() const {
  if (!network_problem_) return {};
  return "which layers are heads, routers or embeddings is guessed by their names: " +
         network_problem_->message();
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
  // Some tables have dimensions of 1 before their own.
  const size_t more = found.size() - std::min(found.size(), shape.size());
  bool fits = found.size() >= shape.size() &&
              std::all_of(found.begin(), found.begin() + static_cast<ptrdiff_t>(more),
                          [](int64_t n) { return n == 1; });
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    fits = shape[i] < 0 || shape[i] == found[more + i];
  }
  if (!fits || !IsFloat(tensor->entry->dtype)) {
    throw ModelError("tensor '" + name + "': expected shape " + ShapeText(shape) + ", found " +
                         std::string(tensor->entry->type()) + " " + ShapeText(found),
                     "does config.json belong to these files?", tensor->shard->path().string());
  }
  return *tensor;
}

const CheckpointTensor* Checkpoint::Find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

TensorSlice Checkpoint::Locate(const std::string& name) const {
  if (const auto it = slices_.find(name); it != slices_.end()) return it->second;
  const CheckpointTensor* tensor = Find(name);
  if (tensor == nullptr) return {};
  const Shape& shape = tensor->entry->shape;
  const size_t row = std::max<size_t>(RowSize(shape), 1);
  return {tensor, 0, static_cast<int64_t>(ElementCount(shape) / row)};
}

size_t RowSize(const Shape& shape) {
  return shape.size() < 2 ? 1 : static_cast<size_t>(shape.back());
}

FloatSource Checkpoint::OpenTensor(const CheckpointTensor& tensor) const {
  if (!tensor.coded()) return FloatSource(tensor.shard->Read(*tensor.entry));
  const auto codes =
      std::make_shared<const CodedTensor>(codes_->Open(code_index_.at(tensor.stored)));
  return {tensor.entry->shape,
          [codes](size_t begin, size_t n, float* values) { codes->Decode(begin, n, values); }};
}

Tensor Checkpoint::Read(const CheckpointTensor& tensor) const {
  if (!tensor.coded()) return tensor.shard->Read(*tensor.entry);
  const FloatSource values = OpenTensor(tensor);
  std::byte* bytes = nullptr;
  Tensor result = Tensor::Allocate(DType::kF32, tensor.entry->shape, &bytes);
  values.Read(0, values.size(), reinterpret_cast<float*>(bytes));
  return result;
}

void Checkpoint::ReadRows(const CheckpointTensor& tensor, int64_t begin, int64_t end,
                          float* values) const {
  const size_t row = RowSize(tensor.entry->shape);
  OpenTensor(tensor).Read(static_cast<size_t>(begin) * row, static_cast<size_t>(end - begin) * row,
                          values);
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
  fingerprint.hash = whole_fingerprint_ ? CombineHashes(HashTensors(*this, true))
                                        : "part " + part_->Text() + " of " + QuickHash(*this);
  return fingerprint;
}

}  // namespace hif8
