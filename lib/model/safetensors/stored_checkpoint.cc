#include "lib/model/safetensors/stored_checkpoint.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/input_file.h"
#include "lib/model/safetensors/fused_modules.h"
#include "lib/model/safetensors/layout.h"
#include "lib/model/safetensors/model_config.h"
#include "lib/model/safetensors/output_layout.h"
#include "lib/model/safetensors/quantization_config.h"
#include "lib/model/safetensors/shard_list.h"
#include "lib/model/safetensors/stored_scales.h"
#include "lib/model/safetensors/tensor_roles.h"
#include "lib/numeric/packed_codes.h"

namespace hif8 {
namespace {

constexpr std::string_view kPacked = "_packed";
// gpt-oss: experts as [experts, outputs, groups, bytes] and a scale for each group, where files in
// floats have [experts, inputs, outputs].
constexpr std::string_view kBlocks = "_blocks";
constexpr std::string_view kBlockScales = "_scales";

// What a quantized module or attention has besides its codes.
constexpr std::array<std::string_view, 19> kParts = {".weight_scale",
                                                     ".weight_scale_inv",
                                                     ".weight_shape",
                                                     ".weight_offset",
                                                     ".input_scale",
                                                     ".input_offset",
                                                     ".quant_bias",
                                                     ".deq_scale",
                                                     ".output_scale",
                                                     ".k_scale",
                                                     ".v_scale",
                                                     ".kv_latent_scale",
                                                     ".k_rope_scale",
                                                     ".ckv_scale",
                                                     ".scale",
                                                     ".weight_global_scale",
                                                     ".input_global_scale",
                                                     ".weight_scale_2",
                                                     ".weight_zero_point"};
// Those that belong to a module only where it has codes.
constexpr std::array<std::string_view, 5> kPartsOfCodes = {".weight_", ".input_", ".quant_bias",
                                                           ".deq_scale", ".scale"};

// ModelOpt's, a factor where compressed-tensors has a divisor.
std::string SecondScaleName(const std::string& weight) { return weight + "_scale_2"; }

// Words of eight 4-bit integers have 8 added to each.
uint8_t FlippedBits(DType dtype) { return dtype == DType::kI32 ? 8 : 0; }

struct Source {
  const SafetensorsFile* shard = nullptr;
  const SafetensorsEntry* entry = nullptr;
};

class CheckpointFiles : public StoredCheckpoint {
 public:
  CheckpointFiles(const std::filesystem::path& path, ShardList files, const FormatRegistry& formats)
      : path_(path),
        formats_(formats),
        files_(std::move(files)),
        plain_format_(formats.names().front()) {
    ReadConfig();
    for (const auto& shard : files_.shards) {
      file_bytes_ += shard->file_bytes();
      for (const SafetensorsEntry& entry : shard->tensors()) {
        if (files_.ignored.contains(&entry)) continue;
        entries_.emplace(entry.name, Source{shard.get(), &entry});
      }
    }
    for (const auto& shard : files_.shards) {
      for (const SafetensorsEntry& entry : shard->tensors()) {
        if (!files_.ignored.contains(&entry) && !IsPart(entry.name)) Add({shard.get(), &entry});
      }
    }
  }

  std::string_view kind() const override { return "safetensors"; }
  const std::filesystem::path& path() const override { return path_; }
  uint64_t file_bytes() const override { return file_bytes_; }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }

  Tensor Read(size_t index) const override {
    const Source& source = sources_[index];
    Tensor stored = source.shard->Read(*source.entry);
    const StoredTensor& tensor = tensors_[index];
    if (scaled_biases_ && IsScaledBias(tensor)) return ScaledBias(tensor, stored.view);
    if (tensor.format.empty() || stored.view.bytes() == tensor.size()) return stored;
    std::byte* bytes = nullptr;  // two codes a byte
    Tensor codes = Tensor::Allocate(DType::kU8, tensor.shape, &bytes);
    const std::span<uint8_t> unpacked(reinterpret_cast<uint8_t*>(bytes), tensor.size());
    UnpackCodes({reinterpret_cast<const uint8_t*>(stored.view.data), stored.view.bytes()},
                static_cast<size_t>(tensor.shape.back()), unpacked);
    for (uint8_t& code : unpacked) code ^= FlippedBits(stored.view.dtype);
    return codes;
  }

  std::vector<float> ReadScales(size_t index) const override {
    const Source& source = scales_[index];
    if (source.entry == nullptr || tensors_[index].format.empty()) return {};
    const Tensor stored = source.shard->Read(*source.entry);
    const NumberFormat& format = formats_.Get(tensors_[index].format);
    const std::string& name = tensors_[index].name;
    Tensor global;
    if (const Source* found = Find(GlobalScaleName(name))) {
      global = found->shard->Read(*found->entry);
    }
    std::vector<float> scales = ScaleNumbers(
        format, stored.view, global.view.data != nullptr ? global.view : kNoGlobalScale);
    if (const Source* found = Find(SecondScaleName(name))) {
      const Tensor second = found->shard->Read(*found->entry);
      float factor = 1;
      ConvertToFloat(second.view.dtype, second.view.data, 1, &factor);
      for (float& scale : scales) scale *= factor;
    }
    return scales;
  }

  const SafetensorsEntry& entry(size_t index) const override { return *sources_[index].entry; }
  const SafetensorsFile* scale_file(size_t index) const override { return scales_[index].shard; }
  CodedTensor Open(size_t index) const override {
    const Source& source = sources_[index];
    return {source.shard->Read(*source.entry),
            formats_.Get(tensors_[index].format),
            tensors_[index].tiles,
            ReadScales(index),
            FlippedBits(source.entry->dtype),
            tensors_[index].turned};
  }

 private:
  void ReadConfig() {
    ReadSettings();
    std::erase_if(edges_, [](int64_t edge) { return edge < 1; });
    std::ranges::copy(TileEdges(formats_), std::back_inserter(edges_));
  }

  void ReadSettings() {
    const bool folder = std::filesystem::is_directory(path_);
    const std::filesystem::path file = (folder ? path_ : path_.parent_path()) / "config.json";
    if (!std::filesystem::exists(file)) return;
    const ModelConfig config = ModelConfig::Parse(ReadFile(file, kMaxSettingsBytes), file.string());
    own_dtype_ = OwnDType(config);
    const ModelConfig quantization = config.Object("quantization_config");
    plain_format_ = quantization.String("number_format", plain_format_);
    scaled_biases_ = quantization.String("layout", "") == NameOf(LayoutKind::kCann);
    edges_ = quantization.Integers("weight_block_size", {});
    const ModelConfig groups = quantization.Object("config_groups");
    for (const std::string& name : groups.Keys()) {
      edges_.push_back(groups.Object(name).Object("weights").Integer("group_size", 0));
    }
  }

  const Source* Find(const std::string& name) const {
    const auto it = entries_.find(name);
    return it == entries_.end() ? nullptr : &it->second;
  }

  // True for what belongs to a tensor that is there; the rest of a lost one is listed by itself.
  bool IsPart(const std::string& name) const {
    for (const std::string_view suffix : kParts) {
      if (!name.ends_with(suffix)) continue;
      const bool of_codes =
          std::any_of(kPartsOfCodes.begin(), kPartsOfCodes.end(),
                      [&](std::string_view beginning) { return suffix.starts_with(beginning); });
      if (!of_codes) return true;
      const std::string module = name.substr(0, name.size() - suffix.size());
      const Source* const weight = Find(module + ".weight");
      if (weight == nullptr) return Find(module + ".weight_packed") != nullptr;
      return suffix != ".scale" || !IsFloat(weight->entry->dtype);
    }
    if (name.ends_with(kBlockScales)) {
      const std::string tensor = name.substr(0, name.size() - kBlockScales.size());
      return Find(tensor + std::string(kBlocks)) != nullptr;
    }
    for (const std::string_view suffix : {"_global_scale", "_scale"}) {
      if (!name.ends_with(suffix)) continue;
      const std::string tensor = name.substr(0, name.size() - suffix.size());
      if (Find(tensor) != nullptr || Find(PackedName(tensor)) != nullptr) return true;
    }
    return false;
  }

  // Ascend's converter and FP8 in its loader have X.scale.
  const Source* ScalesOf(const std::string& name, DType dtype) const {
    for (const char* suffix : {"_scale_inv", "_scale"}) {
      if (const Source* found = Find(name + suffix)) return found;
    }
    return name.ends_with(".weight") && !IsFloat(dtype) ? Find(Renamed(name, "scale")) : nullptr;
  }

  const Source* BlockScalesOf(const Source& source) const {
    const std::string& name = source.entry->name;
    const Shape& shape = source.entry->shape;
    if (!name.ends_with(kBlocks) || source.entry->dtype != DType::kU8 || shape.size() != 4) {
      return nullptr;
    }
    const std::string tensor = name.substr(0, name.size() - kBlocks.size());
    const Source* const scales = Find(tensor + std::string(kBlockScales));
    const bool fits = scales != nullptr && scales->entry->dtype == DType::kU8 &&
                      scales->entry->shape == Shape(shape.begin(), shape.end() - 1);
    return fits ? scales : nullptr;
  }

  // Layout cann divides the bias of a layer by the scales of its weight where that is in U8.
  const Source* WeightOfBias(const std::string& name) const {
    return name.ends_with(".bias") ? Find(Renamed(name, "weight")) : nullptr;
  }
  bool IsScaledBias(const StoredTensor& tensor) const {
    const Source* const weight = WeightOfBias(tensor.name);
    if (weight == nullptr || weight->entry->dtype != DType::kU8) return false;
    const Source* const scales = ScalesOf(weight->entry->name, DType::kU8);
    return scales != nullptr && IsFloat(tensor.dtype) && IsFloat(scales->entry->dtype) &&
           tensor.size() % std::max<size_t>(ElementCount(scales->entry->shape), 1) == 0;
  }
  // What it was, in the type that config.json names.
  Tensor ScaledBias(const StoredTensor& tensor, const TensorView& stored) const {
    const Source* const source = ScalesOf(Renamed(tensor.name, "weight"), DType::kU8);
    const Tensor scale = source->shard->Read(*source->entry);
    std::vector<float> scales(scale.view.size());
    ConvertToFloat(scale.view.dtype, scale.view.data, scales.size(), scales.data());
    std::vector<float> values(stored.size());
    ConvertToFloat(stored.dtype, stored.data, values.size(), values.data());
    for (size_t i = 0; i < values.size(); ++i) values[i] *= scales[i % scales.size()];
    std::byte* bytes = nullptr;
    Tensor bias = Tensor::Allocate(own_dtype_, tensor.shape, &bytes);
    ConvertFromFloat(own_dtype_, values.data(), values.size(), bytes);
    return bias;
  }

  void Add(const Source& source) {
    StoredTensor tensor;
    tensor.name = source.entry->name;
    tensor.shape = source.entry->shape;
    tensor.dtype = source.entry->dtype;
    tensor.bytes = source.entry->bytes();
    const bool words = tensor.dtype == DType::kI32;
    bool packed = tensor.name.ends_with(kPacked) && (tensor.dtype == DType::kU8 || words);
    if (packed) tensor.name.erase(tensor.name.size() - kPacked.size());
    const Source* scales = ScalesOf(tensor.name, tensor.dtype);
    if (const Source* of_blocks = BlockScalesOf(source)) {
      scales = of_blocks;
      tensor.name.erase(tensor.name.size() - kBlocks.size());
      tensor.shape = {tensor.shape[0], tensor.shape[1], tensor.shape[2] * tensor.shape[3]};
      tensor.turned = true;
    }
    // Bytes with scales that are powers of two are no other format's.
    packed |= scales != nullptr && !IsFloat(scales->entry->dtype) &&
              (tensor.dtype == DType::kU8 || tensor.dtype == DType::kI8);
    if (packed && !tensor.shape.empty()) tensor.shape.back() *= words ? 8 : 2;
    if (scales != nullptr) {
      SetCodes(packed, *scales, &tensor);
    } else if (!IsFloat(tensor.dtype)) {
      tensor.unknown = std::string(source.entry->type()) + " without scales";
    }
    const TensorPlace place = PlaceTensor(tensor.name, tensor.shape);
    if (place.role != TensorRole::kOther) {
      const bool table = place.role == TensorRole::kEmbedding;
      // Files may have block 10 before block 2.
      constexpr int kBehindBlocks = std::numeric_limits<int>::max();
      const int position = table ? 0 : place.block >= 0 ? 1 + place.block : kBehindBlocks;
      const char* op = table ? "Embedding" : place.role == TensorRole::kConv ? "Conv" : "Linear";
      tensor.layers.push_back({place.module, op, position});
    }
    if (const Source* scale = Find(InputScaleName(tensor.name))) {
      if (scale->entry->dtype == DType::kF32 && ElementCount(scale->entry->shape) == 1) {
        std::memcpy(&tensor.input_scale.emplace(), scale->shard->Bytes(*scale->entry).data(),
                    sizeof(float));
      }
    }
    tensors_.push_back(std::move(tensor));
    sources_.push_back(source);
    scales_.push_back(scales != nullptr ? *scales : Source());
  }

  void SetCodes(bool packed, const Source& scales, StoredTensor* tensor) const {
    const DType scale_type = scales.entry->dtype;
    // Bytes and powers of two have several types in files of others.
    const CodesInFile codes{tensor->dtype, packed,
                            scale_type == DType::kF8E8M0 ? DType::kU8 : scale_type, plain_format_};
    const NumberFormat* format = FindFormat(formats_, codes);
    tensor->bytes += scales.entry->bytes();
    for (const std::string& name : {GlobalScaleName(tensor->name), SecondScaleName(tensor->name)}) {
      const Source* const number = Find(name);
      if (number == nullptr) continue;
      tensor->bytes += number->entry->bytes();
      if (!IsFloat(number->entry->dtype) || ElementCount(number->entry->shape) != 1) {
        tensor->unknown = "scales over " + std::string(DTypeName(number->entry->dtype)) + " " +
                          ShapeText(number->entry->shape) + ", not one float";
        return;
      }
    }
    if (Find(tensor->name + "_zero_point") != nullptr) {
      tensor->unknown = std::string(DTypeName(tensor->dtype)) + " with zero points";
      return;
    }
    if (format != nullptr &&
        FindTiles(tensor->shape, scales.entry->shape, edges_, &tensor->tiles)) {
      tensor->format = format->name();
      return;
    }
    tensor->unknown = std::string(DTypeName(tensor->dtype)) + " " + ShapeText(tensor->shape) +
                      " with scales " + std::string(DTypeName(scale_type)) + " " +
                      ShapeText(scales.entry->shape);
  }

  std::filesystem::path path_;
  const FormatRegistry& formats_;
  ShardList files_;
  std::string plain_format_;    // of codes whose type says nothing
  std::vector<int64_t> edges_;  // of tiles, those that config.json names first
  DType own_dtype_ = DType::kBF16;
  bool scaled_biases_ = false;
  uint64_t file_bytes_ = 0;
  std::unordered_map<std::string, Source> entries_;
  std::vector<StoredTensor> tensors_;
  std::vector<Source> sources_, scales_;  // of tensors_
};

}  // namespace

std::unique_ptr<StoredCheckpoint> OpenStoredCheckpoint(const std::filesystem::path& path,
                                                       const FormatRegistry& formats) {
  return OpenStoredCheckpoint(path, FindShards(path), formats);
}

std::unique_ptr<StoredCheckpoint> OpenStoredCheckpoint(const std::filesystem::path& path,
                                                       ShardList files,
                                                       const FormatRegistry& formats) {
  return std::make_unique<CheckpointFiles>(path, std::move(files), formats);
}

}  // namespace hif8
