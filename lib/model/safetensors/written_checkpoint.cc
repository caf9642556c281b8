#include "lib/model/safetensors/written_checkpoint.h"

#include <cstring>
#include <utility>

#include "lib/core/error.h"
#include "lib/model/safetensors/output_layout.h"

namespace hif8 {

WrittenCheckpoint::WrittenCheckpoint(std::shared_ptr<const Checkpoint> source,
                                     const std::filesystem::path& folder)
    : source_(std::move(source)), folder_(folder) {
  for (const auto& shard : source_->files().shards) {
    files_.shards.push_back(SafetensorsFile::Open(folder / shard->path().filename()));
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
