#include "lib/model/safetensors/written_checkpoint.h"

#include <algorithm>
#include <span>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/input_file.h"
#include "lib/model/safetensors/coded_tensor.h"
#include "lib/model/safetensors/fused_modules.h"
#include "lib/model/safetensors/output_layout.h"
#include "lib/model/stored_model.h"
#include "lib/numeric/packed_codes.h"

namespace hif8 {
namespace {

// The names that a layout may give the codes and the scales of a weight, in the order of search.
std::vector<std::string> CodesNames(const std::string& weight) {
  return {PackedName(weight), weight};
}
std::vector<std::string> ScaleNames(const std::string& weight) {
  return {WeightScaleName(weight), Renamed(weight, "scale")};
}

}  // namespace

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

Tensor WrittenCheckpoint::ReadTensor(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    const SafetensorsFile* shard = nullptr;
    const SafetensorsEntry* entry = Find(name, &shard);
    if (entry != nullptr) return shard->Read(*entry);
  }
  throw ModelError("the written checkpoint has no tensor '" + names.back() + "'",
                   "run hif8-calibrate again with --force", folder_.string());
}

void WrittenCheckpoint::ReadRows(const std::string& name, const FormatRegistry& formats,
                                 int64_t begin, int64_t end, float* values) const {
  if (begin == end) return;
  const Shape& shape = source_->Find(name)->entry->shape;
  const size_t row = RowSize(shape);
  const size_t first = static_cast<size_t>(begin) * row;
  const size_t count = static_cast<size_t>(end - begin) * row;
  const TensorView tensor = ReadTensor(CodesNames(name)).view;
  const bool packed = !IsFloat(tensor.dtype) && tensor.shape != shape;
  if (IsFloat(tensor.dtype)) {
    const std::byte* from = tensor.data + first * DTypeSize(tensor.dtype);
    return ConvertToFloat(tensor.dtype, from, count, values);
  }
  const TensorView stored = ReadTensor(ScaleNames(name)).view;
  const CodesInFile codes_in_file{tensor.dtype, packed, stored.dtype, number_format_};
  const NumberFormat* format = FindFormat(formats, codes_in_file);
  TileLayout layout;
  if (format == nullptr || !FindTiles(shape, stored.shape, TileEdges(formats), &layout)) {
    throw ModelError("codes and scales of '" + name + "' are not what was written",
                     "run hif8-calibrate again with --force", folder_.string());
  }
  const SafetensorsFile* shard = nullptr;
  const bool global = Find(GlobalScaleName(name), &shard) != nullptr;
  const std::vector<float> scales = ScaleNumbers(
      *format, stored, global ? ReadTensor({GlobalScaleName(name)}).view : kNoGlobalScale);
  CodedTensor({tensor, nullptr}, *format, layout, scales).Decode(first, count, values);
}

WrittenWeight ReadWrittenWeight(const SafetensorsFile& file, const std::string& name,
                                const NumberFormat& format, const TileLayout& layout) {
  const auto read = [&](const std::vector<std::string>& names) {
    for (const std::string& tensor : names) {
      const SafetensorsEntry* entry = file.Find(tensor);
      if (entry != nullptr) return file.Read(*entry);
    }
    throw ModelError("the written file has no tensor '" + names.back() + "'",
                     "run hif8-calibrate again with --force", file.path().string());
  };
  const Tensor codes = read(CodesNames(name));
  const Tensor scales = read(ScaleNames(name));
  const bool packed = format.packed();
  // Scales that stand for several runs of rows are repeated in the file.
  const size_t repeats = scales.view.size() / std::max<size_t>(layout.scale_count(), 1);
  const size_t columns = layout.shape.empty() ? 1 : static_cast<size_t>(layout.shape.back());
  const size_t bytes = packed
                           ? layout.size() / std::max<size_t>(columns, 1) * PackedRowBytes(columns)
                           : layout.size();
  if (codes.view.bytes() != bytes || scales.view.size() != repeats * layout.scale_count() ||
      !AreScales(format, scales.view.dtype)) {
    throw ModelError("codes " + ShapeText(codes.view.shape) + " and scales " +
                         ShapeText(scales.view.shape) + " of '" + name + "' do not fit the plan",
                     "run hif8-calibrate again with --force", file.path().string());
  }
  const bool global = file.Find(GlobalScaleName(name)) != nullptr;
  EncodedWeight encoded;
  encoded.format = format.name();
  encoded.layout = layout;
  encoded.scales = ScaleNumbers(format, scales.view,
                                global ? read({GlobalScaleName(name)}).view : kNoGlobalScale);
  encoded.scales.resize(layout.scale_count());
  const auto* data = reinterpret_cast<const uint8_t*>(codes.view.data);
  if (packed) {
    encoded.codes.resize(layout.size());
    UnpackCodes({data, bytes}, columns, encoded.codes);
    return WrittenWeight(std::move(encoded));
  }
  WrittenWeight written(std::move(encoded));
  written.codes = {data, bytes};
  written.owner = codes.owner;
  return written;
}

}  // namespace hif8
