// A Hugging Face checkpoint: a folder (config.json, *.safetensors, optional index) or a single
// .safetensors file.
#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/core/error.h"
#include "lib/model/model.h"
#include "lib/model/safetensors/checkpoint_part.h"
#include "lib/model/safetensors/description.h"
#include "lib/model/safetensors/model_config.h"
#include "lib/model/safetensors/network.h"
#include "lib/model/safetensors/shard_list.h"
#include "lib/model/safetensors/stored_checkpoint.h"

namespace hif8 {

struct CheckpointTensor {
  const SafetensorsFile* shard;
  const SafetensorsEntry* entry;   // of its values: what the output has, and what layers go by
  const SafetensorsEntry* stored;  // of the file; another one where it holds codes
  int weight = -1;                 // index into weights(), -1: no layer's weight
  bool companion = false;          // part of an old quantization: not in the output
  const SafetensorsFile* scale_file = nullptr;  // of a tensor of codes, any shard

  bool coded() const { return entry != stored; }

  const std::string& name() const { return entry->name; }
};

// Rows of a tensor; no tensor: there is none of that name.
struct TensorSlice {
  const CheckpointTensor* tensor = nullptr;
  int64_t first = 0;
  int64_t rows = 0;
};

// Elements of the last of several dimensions, or 1.
size_t RowSize(const Shape& shape);

class Checkpoint : public Model {
 public:
  // Throws kModel for what cannot be read, or is quantized in a way that is not. Nothing but
  // headers is read. `formats`: of codes; it must outlive the checkpoint. `part`: only these files
  // are written. Its fingerprint is that of the whole model only where `whole_fingerprint` asks for
  // that, since it costs reading every byte. `head_caches`: as DecoderSpec has it, of attention
  // with heads. `description`: of the network; without it `hif8_architecture.yaml` beside
  // config.json or the built-in one. Throws kUsage for a file of the user's that is none.
  static std::shared_ptr<const Checkpoint> Open(const std::filesystem::path& path,
                                                const FormatRegistry& formats,
                                                std::optional<CheckpointPart> part = {},
                                                bool whole_fingerprint = true,
                                                std::optional<Description> description = {},
                                                bool head_caches = false);

  std::string_view kind() const override { return "safetensors"; }
  const std::filesystem::path& path() const override { return path_; }
  const std::vector<Layer>& layers() const override { return layers_; }
  const std::vector<Weight>& weights() const override { return weights_; }
  const std::vector<Activation>& activations() const override { return activations_; }
  uint64_t parameter_count() const override { return parameter_count_; }
  std::string caveat() const override;
  bool reads_images() const override {
    return network_ && network_->spec.input == InputType::kImage;
  }
  // Weights that are codes come decoded, as fp32.
  Tensor ReadWeight(int index) const override;
  FloatSource OpenWeight(int index) const override { return OpenTensor(tensor_of_weight(index)); }
  // Reads every tensor the first time.
  Fingerprint ComputeFingerprint() const override;

  const ModelConfig& config() const { return config_; }
  // Returns the user's own description of the network; null: there is none.
  const Description* description() const { return description_ ? &*description_ : nullptr; }
  const ShardList& files() const { return files_; }
  const std::optional<CheckpointPart>& part() const { return part_; }
  // True when the fingerprint is that of every byte.
  bool whole_fingerprint() const { return whole_fingerprint_; }
  bool head_caches() const { return head_caches_; }
  // False for files that another part writes.
  bool Writes(const SafetensorsFile& shard) const;
  // Returns every tensor, shard by shard in header order.
  const std::vector<CheckpointTensor>& tensors() const { return tensors_; }
  // Returns null when there is no such tensor.
  const CheckpointTensor* Find(std::string_view name) const;
  // Locates what a network's parts read, where one expert of a fused tensor goes by the name that
  // its own tensor would have.
  TensorSlice Locate(const std::string& name) const;
  // Throws kModel when there is no such tensor of floats or it has another shape (-1: any).
  const CheckpointTensor& FindShaped(const std::string& name, const Shape& shape) const;
  // Returns the values: as stored, codes decoded.
  Tensor Read(const CheckpointTensor& tensor) const;
  // Opens a tensor of floats, to be read in pieces. Valid as long as this object.
  FloatSource OpenTensor(const CheckpointTensor& tensor) const;
  // Rows [begin, end) of a tensor of floats as fp32, codes decoded. A row is what the last of
  // several dimensions holds.
  void ReadRows(const CheckpointTensor& tensor, int64_t begin, int64_t end, float* values) const;
  // The tensor that holds the values of weights()[index].
  const CheckpointTensor& tensor_of_weight(int index) const {
    return tensors_[tensor_of_weight_[static_cast<size_t>(index)]];
  }
  // The type that decoded tensors are written in: config.json's, BF16 by default.
  DType own_dtype() const { return own_dtype_; }
  // Tells how the tensors are connected. Throws kModel saying why not where that is not known;
  // layers and activations are there all the same, one activation for each Linear.
  const Network& network() const;
  // True when the embedding's weight is the head's: by the network's description, else by
  // config.json.
  bool tied() const {
    return network_ ? network_->spec.head.tied : config_.Bool("tie_word_embeddings", false);
  }
  // Returns the module of a head that is tied, which has no tensor.
  std::string tied_head() const { return network_ ? network_->spec.head.name : "lm_head"; }
  // Positions in layers() and activations(); -1 when there is no such name.
  int LayerIndex(const std::string& name) const;
  int ActivationIndex(const std::string& name) const;
  bool has_config() const { return !config_.empty(); }
  bool is_file() const { return is_file_; }

 private:
  Checkpoint() = default;
  void ReadConfig();
  Fingerprint MakeFingerprint() const;
  void AddTensors();
  void AddLayer(CheckpointTensor* tensor);
  void OpenCodes(const FormatRegistry& formats);
  CheckpointTensor Describe(const SafetensorsFile& shard, const SafetensorsEntry& entry);
  void ConnectLayers();
  void ConnectPart(const std::string& prefix, const std::vector<PartLayer>& part, int block);
  void ConnectFusedExperts(int64_t block);
  int AddActivation(const std::string& name);

  std::filesystem::path path_;
  bool is_file_ = false;
  std::optional<CheckpointPart> part_;
  bool whole_fingerprint_ = true;
  bool head_caches_ = false;
  ModelConfig config_;
  std::optional<Description> description_;
  ShardList files_;
  std::unique_ptr<StoredCheckpoint> codes_;                         // null: there are none
  std::unordered_map<const SafetensorsEntry*, size_t> code_index_;  // into codes_->tensors()
  std::deque<SafetensorsEntry> decoded_;                            // of tensors of codes
  DType own_dtype_ = DType::kBF16;
  std::vector<CheckpointTensor> tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;
  std::vector<size_t> tensor_of_weight_;
  std::vector<Layer> layers_;
  std::vector<Weight> weights_;
  std::vector<Activation> activations_;
  uint64_t parameter_count_ = 0;
  mutable std::once_flag fingerprint_made_;
  mutable Fingerprint fingerprint_;
  std::optional<Network> network_;
  std::optional<Error> network_problem_;
  // Experts of fused tensors have names here too.
  std::unordered_map<std::string, int> layer_index_, activation_index_;
  std::unordered_map<std::string, TensorSlice> slices_;
};

}  // namespace hif8
