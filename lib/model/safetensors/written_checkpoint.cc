#include "lib/model/safetensors/written_checkpoint.h"

#include <cstring>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/output_dir.h"
#include "lib/model/safetensors/output_layout.h"

namespace hif8 {

WrittenCheckpoint::WrittenCheckpoint(std::shared_ptr<const Checkpoint> source,
                                     const std::filesystem::path& folder)
    : source_(std::move(source)), folder_(folder) {
  for (const auto& shard : source_->files().shards) {
    if (!source_->Writes(*shard)) continue;
    files_.shards.push_back(SafetensorsFile::Open(folder / shard->path().filename()));
  }
  const std::filesystem::path config = folder / "config.json";
  if (std::filesystem::exists(config)) {
    number_format_ = ModelConfig::Parse(ReadFile(config), config.string())
                         .Object("quantization_config")
                         .String("number_format", "");
  }
}

const SafetensorsEntry* WrittenCheckpoint::Find(const std::string& name,
                                                const SafetensorsFile** shard) const {
  for (const auto& file : files_.shards) {
    if (const SafetensorsEntry* entry = file->Find(name)) {
      *shard = file.get();
      return entry;
    }
  }
  return nullptr;
}

Tensor WrittenCheckpoint::ReadTensor(const std::string& name) const {
  const SafetensorsFile* shard = nullptr;
  const SafetensorsEntry* entry = Find(name, &shard);
  if (entry == nullptr) {
    throw ModelError("the written checkpoint has no tensor '" + name + "'", "", folder_.string());
  }
  return shard->Read(*entry);
}

void WrittenCheckpoint::ReadRows(const std::string& name, const FormatRegistry& formats,
                                 int64_t begin, int64_t end, float* values) const {
  const TensorView tensor = ReadTensor(name).view;
  if (begin == end) return;
  const size_t row = RowSize(tensor.shape);
  const size_t first = static_cast<size_t>(begin) * row;
  const auto rows = static_cast<size_t>(end - begin);
  if (IsFloat(tensor.dtype)) {
    return ConvertToFloat(tensor.dtype, tensor.data + first * DTypeSize(tensor.dtype), rows * row,
                          values);
  }
  const TensorView stored = ReadTensor(WeightScaleName(name)).view;
  std::vector<float> scales(stored.size());
  ConvertToFloat(stored.dtype, stored.data, stored.size(), scales.data());
  const NumberFormat& format = formats.Get(FormatOf(tensor.dtype));
  const auto* codes = reinterpret_cast<const uint8_t*>(tensor.data) + first;
  // One scale for all, or one per run of the last dimension.
  const size_t run = scales.size() == 1 ? rows * row : static_cast<size_t>(tensor.shape.back());
  for (size_t i = 0; i < rows * row; i += run) {
    const float& scale = scales[scales.size() == 1 ? 0 : (first + i) / run];
    format.Decode({codes + i, run}, ScaleOperand::One(scale), {values + i, run});
  }
}

std::string WrittenCheckpoint::FormatOf(DType dtype) const {
  if (dtype == DType::kF8E4M3) return "fp8_e4m3";
  if (dtype == DType::kF8E5M2) return "fp8_e5m2";
  return dtype == DType::kI8 ? "int8" : number_format_;
}

bool WrittenCheckpoint::IsQuantized(int index) const {
  const std::string& name = source_->weights()[static_cast<size_t>(index)].name;
  const SafetensorsFile* shard = nullptr;
  return Find(WeightScaleName(name), &shard) != nullptr;
}

EncodedWeight WrittenCheckpoint::Read(int index, const std::string& format,
                                      const ChannelLayout& layout) const {
  const std::string& name = source_->weights()[static_cast<size_t>(index)].name;
  const Tensor codes = ReadTensor(name);
  const Tensor scales = ReadTensor(WeightScaleName(name));
  if (codes.view.bytes() != layout.size() || scales.view.size() != layout.scale_count() ||
      !IsFloat(scales.view.dtype)) {
    throw ModelError("codes " + ShapeText(codes.view.shape) + " and scales " +
                         ShapeText(scales.view.shape) + " of '" + name + "' do not fit the plan",
                     "", folder_.string());
  }
  EncodedWeight encoded;
  encoded.format = format;
  encoded.layout = layout;
  encoded.codes.resize(codes.view.bytes());
  std::memcpy(encoded.codes.data(), codes.view.data, codes.view.bytes());
  encoded.scales.resize(scales.view.size());
  ConvertToFloat(scales.view.dtype, scales.view.data, scales.view.size(), encoded.scales.data());
  return encoded;
}

}  // namespace hif8
