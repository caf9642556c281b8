#include "lib/model/safetensors/checkpoint_writer.h"

#include <algorithm>
#include <memory>
#include <system_error>

#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/input_file.h"
#include "lib/core/interrupt.h"
#include "lib/core/mapped_file.h"
#include "lib/core/memory.h"
#include "lib/core/output_dir.h"
#include "lib/core/resume_list.h"
#include "lib/model/safetensors/checkpoint_layout.h"
#include "lib/model/safetensors/encode_ahead.h"
#include "lib/model/safetensors/json_text.h"
#include "lib/model/safetensors/output_layout.h"
#include "lib/numeric/packed_codes.h"

namespace hif8 {
namespace fs = std::filesystem;
namespace {

using Kind = OutputTensor::Kind;

// More codes than these would not make it faster.
constexpr uint64_t kMaxCodesAhead = uint64_t{96} << 20;
// Elements that are converted at a time: small beside the caches' size, large beside a call's cost.
constexpr size_t kPiece = size_t{1} << 16;

void UpdateWithStamp(const SafetensorsFile& file, Hasher* hasher) {
  std::error_code error;
  const auto time = fs::last_write_time(file.path(), error).time_since_epoch().count();
  hasher->Update(" " + std::to_string(file.file_bytes()) + " " + std::to_string(time));
}

// What must be the same for a finished shard to be taken over.
std::string ShardFingerprint(const OutputShard& shard, const CheckpointPlan& plan) {
  Hasher hasher;
  hasher.Update(plan.fingerprint);
  hasher.Update(shard.source->header());
  UpdateWithStamp(*shard.source, &hasher);
  for (const OutputTensor& tensor : shard.tensors) {
    const SafetensorsFile* const scales = tensor.source ? tensor.source->scale_file : nullptr;
    if (scales != nullptr && scales != shard.source) UpdateWithStamp(*scales, &hasher);
    const CheckpointTensor* const bias = tensor.bias;
    if (bias != nullptr && bias->shard != shard.source) UpdateWithStamp(*bias->shard, &hasher);
    hasher.Update(tensor.entry.name + std::string(tensor.entry.type()) +
                  ShapeText(tensor.entry.shape));
    hasher.Update(std::as_bytes(std::span(tensor.values)));
  }
  return hasher.Hex();
}

std::vector<SafetensorsEntry> EntriesOf(const OutputShard& shard) {
  std::vector<SafetensorsEntry> entries;
  entries.reserve(shard.tensors.size());
  for (const OutputTensor& tensor : shard.tensors) entries.push_back(tensor.entry);
  return entries;
}

const SafetensorsMetadata* MetadataOf(const SafetensorsFile& file) {
  return file.has_metadata() ? &file.metadata() : nullptr;
}

class ShardWriter {
 public:
  ShardWriter(const Checkpoint& source, const FormatRegistry& formats, EncodeAhead* encoder)
      : source_(source), formats_(formats), encoder_(encoder) {}

  // `done` is called with the bytes of each tensor written.
  void Write(const OutputShard& shard, const fs::path& path,
             const std::function<void(uint64_t)>& done) {
    writer_ =
        std::make_unique<SafetensorsWriter>(path, EntriesOf(shard), MetadataOf(*shard.source));
    for (index_ = 0; index_ < shard.tensors.size(); ++index_) {
      CheckInterrupt();
      WriteTensor(shard.tensors[index_]);
      done(DataBytes(shard.tensors[index_].entry));
    }
    writer_->Finish();
  }

 private:
  void WriteTensor(const OutputTensor& tensor) {
    switch (tensor.kind) {
      case Kind::kCopy:
        return WriteBytes(tensor.source->shard->Bytes(*tensor.source->entry));
      case Kind::kDecoded:
        return WriteValuesOf(tensor);
      case Kind::kCodes:
        Take(tensor);
        return WriteBytes(std::as_bytes(std::span(encoded_.codes)));
      case Kind::kPacked:
        Take(tensor);
        return WritePacked();
      case Kind::kSimulated:
        Take(tensor);
        return WriteDecoded(tensor.entry.dtype);
      case Kind::kMade:
        return WriteBytes(tensor.make(encoded_));
      case Kind::kValues:
        return WriteValues(tensor);
    }
  }

  void WriteBytes(std::span<const std::byte> bytes) { writer_->Write(index_, bytes); }

  void WriteValues(const OutputTensor& tensor) {
    std::vector<float> values = tensor.values;
    values.resize(ElementCount(tensor.entry.shape), values.back());
    WriteBytes(NumberBytes(values, tensor.entry.dtype));
  }

  void WritePacked() {
    const auto columns = static_cast<size_t>(encoded_.layout.shape.back());
    if (columns == 0) return;
    std::vector<uint8_t> packed(encoded_.codes.size() / columns * PackedRowBytes(columns));
    PackCodes(encoded_.codes, columns, packed);
    WriteBytes(std::as_bytes(std::span(packed)));
  }

  void WriteFloats(std::span<const float> values, DType dtype) {
    for (size_t i = 0; i < values.size(); i += kPiece) {
      WriteBytes(NumberBytes(values.subspan(i, std::min(kPiece, values.size() - i)), dtype));
    }
  }

  void Take(const OutputTensor& tensor) {
    encoded_ = {};  // before the next one comes, for the sake of memory
    encoded_ = encoder_->Take();
    if (encoded_.codes.size() != ElementCount(tensor.source->entry->shape)) {
      throw BugError("codes of another size than the weight", tensor.entry.name);
    }
  }

  void WriteValuesOf(const OutputTensor& tensor) {
    const FloatSource weight = source_.OpenTensor(*tensor.source);
    std::vector<float> buffer;
    for (size_t i = 0; i < weight.size(); i += kPiece) {
      const size_t n = std::min(kPiece, weight.size() - i);
      WriteFloats(weight.Floats(i, n, &buffer), tensor.entry.dtype);
    }
  }

  void WriteDecoded(DType dtype) {
    const NumberFormat& format = formats_.Get(encoded_.format);
    const std::span<const uint8_t> codes = encoded_.codes;
    std::vector<float> values;
    for (size_t i = 0; i < codes.size(); i += kPiece) {
      const auto piece = codes.subspan(i, std::min(kPiece, codes.size() - i));
      values.resize(piece.size());
      DecodePart(format, piece, encoded_.layout, encoded_.scales, i, values);
      WriteFloats(values, dtype);
    }
  }

  const Checkpoint& source_;
  const FormatRegistry& formats_;
  EncodeAhead* encoder_;
  std::unique_ptr<SafetensorsWriter> writer_;
  size_t index_ = 0;
  EncodedWeight encoded_;
};

// How many bytes of codes may wait.
uint64_t CodesAhead(const Checkpoint& source, const std::vector<EncodeAhead::Item>& weights) {
  const uint64_t limit = MemoryLimit();
  for (const EncodeAhead::Item& item : weights) {
    RequireMemory(item.bytes, limit, "tensor '" + source.tensor_of_weight(item.weight).name() + "'",
                  SizeText(item.bytes) + " of codes");
  }
  return std::min(kMaxCodesAhead, limit - std::min(limit, kProgramMemory));
}

bool HoldsWeight(const OutputTensor& tensor) {
  return tensor.kind == Kind::kCodes || tensor.kind == Kind::kPacked ||
         tensor.kind == Kind::kSimulated;
}

std::vector<int> WeightsOf(const OutputShard& shard) {
  std::vector<int> weights;
  for (const OutputTensor& tensor : shard.tensors) {
    if (HoldsWeight(tensor)) weights.push_back(tensor.weight);
  }
  return weights;
}

void WriteShards(const Checkpoint& source, const CheckpointPlan& plan,
                 const FormatRegistry& formats, const WeightEncoder& encode,
                 const FinishedWeights& tell, const std::vector<OutputShard>& shards,
                 const fs::path& folder, ResumeList& finished, LogSink& log) {
  std::vector<std::string> fingerprints;
  std::vector<EncodeAhead::Item> weights;
  uint64_t total = 0;
  uint64_t done = 0;
  for (const OutputShard& shard : shards) {
    fingerprints.push_back(ShardFingerprint(shard, plan));
    total += DataBytes(shard);
    if (!source.Writes(*shard.source)) continue;
    if (finished.IsFinished(shard.name, fingerprints.back())) continue;
    for (const OutputTensor& tensor : shard.tensors) {
      if (!HoldsWeight(tensor)) continue;
      weights.push_back({tensor.weight, ElementCount(tensor.source->entry->shape)});
    }
  }
  const uint64_t ahead = CodesAhead(source, weights);
  EncodeAhead encoder(std::move(weights), encode, ahead);
  ShardWriter writer(source, formats, &encoder);
  for (size_t i = 0; i < shards.size(); ++i) {
    if (!source.Writes(*shards[i].source)) {
      log.Progress("write", done += DataBytes(shards[i]), total);
      continue;
    }
    if (finished.IsFinished(shards[i].name, fingerprints[i])) {
      log.Info(shards[i].name + " was finished by an interrupted run");
      log.Progress("write", done += DataBytes(shards[i]), total);
      if (tell) tell(WeightsOf(shards[i]));
      continue;
    }
    const fs::path partial = folder / (shards[i].name + ".partial");
    writer.Write(shards[i], partial,
                 [&](uint64_t bytes) { log.Progress("write", done += bytes, total); });
    MappedFile::CheckAll();  // before anybody takes the file over
    std::error_code error;
    fs::rename(partial, folder / shards[i].name, error);
    if (error) throw WriteError(folder / shards[i].name, error.value());
    finished.Add(shards[i].name, fingerprints[i]);
    if (tell) tell(WeightsOf(shards[i]));
  }
}

// The index lists every tensor in the order of the shards. Other keys of the old one stay.
std::string IndexText(const Checkpoint& source, const std::vector<OutputShard>& shards) {
  using Json = nlohmann::ordered_json;
  const fs::path path = source.path() / source.files().index_name;
  const auto old = ParseJson<nlohmann::json>(ReadFile(path), path.string());
  Json metadata = Json::object();
  if (const auto it = old.find("metadata"); it != old.end() && it->is_object()) metadata = *it;
  uint64_t total = 0;
  for (const OutputShard& shard : shards) total += DataBytes(shard);
  metadata["total_size"] = total;
  // Written as text: an ordered object takes quadratic time for a hundred thousand names.
  std::string text = "{\n  \"metadata\": " + metadata.dump() + ",\n  \"weight_map\": {";
  const char* separator = "\n";
  for (const OutputShard& shard : shards) {
    for (const OutputTensor& tensor : shard.tensors) {
      text +=
          separator + ("    " + Json(tensor.entry.name).dump()) + ": " + Json(shard.name).dump();
      separator = ",\n";
    }
  }
  return text + "\n  }\n}\n";
}

void WritePartFile(const Checkpoint& source, const std::vector<OutputShard>& shards,
                   const fs::path& folder) {
  PartFile file{*source.part(), QuickHash(source), "", {}, HashTensors(source, false)};
  if (source.whole_fingerprint()) file.whole = source.ComputeFingerprint().hash;
  for (const OutputShard& shard : shards) {
    if (source.Writes(*shard.source)) file.files.push_back(shard.name);
  }
  WriteFile(folder / PartFile::kName, FormatPartFile(file));
}

void CopySideFiles(const Checkpoint& source, const fs::path& folder) {
  for (const std::string& name : source.files().side_files) {
    CheckInterrupt();
    std::error_code error;
    fs::create_directories((folder / name).parent_path(), error);
    if (!error) fs::copy_file(source.path() / name, folder / name, error);
    if (error) throw WriteError(folder / name, error.value());
  }
}

}  // namespace

void CheckHeaders(const Checkpoint& source, const CheckpointPlan& plan) {
  for (const OutputShard& shard : LayOutShards(source, plan)) {
    if (!source.Writes(*shard.source)) continue;
    std::vector<SafetensorsEntry> entries = EntriesOf(shard);
    LayOutHeader(shard.name, MetadataOf(*shard.source), &entries);
  }
}

void WriteCheckpoint(const Checkpoint& source, const CheckpointPlan& plan,
                     const FormatRegistry& formats, const WeightEncoder& encode,
                     const fs::path& folder, LogSink& log, const FinishedWeights& finished) {
  const std::vector<OutputShard> shards = LayOutShards(source, plan);
  for (const std::string& notice : source.files().notices) log.Warn(notice);
  // What may not be readable is tried before the long work.
  ResumeList list(folder);
  CopySideFiles(source, folder);
  if (!source.files().index_name.empty()) {
    WriteFile(folder / source.files().index_name, IndexText(source, shards));
  }
  if (!plan.simulated) {
    for (const auto& [name, text] : LayoutOf(plan.layout).Files(source, plan, shards)) {
      WriteFile(folder / name, text);
    }
  } else if (source.has_config()) {
    WriteFile(folder / "config.json", QuantizedConfigText(source, {}, nullptr));
  }
  WriteShards(source, plan, formats, encode, finished, shards, folder, list, log);
  if (source.part()) WritePartFile(source, shards, folder);
}

}  // namespace hif8
