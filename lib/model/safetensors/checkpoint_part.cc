#include "lib/model/safetensors/checkpoint_part.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/parallel.h"
#include "lib/model/safetensors/checkpoint.h"
#include "lib/model/safetensors/json_text.h"

namespace hif8 {
namespace {

constexpr const char* kSchema = "hif8.part/2";
constexpr size_t kSampleBytes = 64;
constexpr size_t kSampleStep = size_t{1} << 24;

enum class Extent { kWhole, kSamples };

std::string HashOf(const CheckpointTensor& tensor, Extent extent) {
  const SafetensorsEntry& entry = *tensor.stored;
  Hasher hasher;
  hasher.Update(entry.name + " " + std::string(entry.type()) + ShapeText(entry.shape));
  const auto bytes = tensor.shard->Bytes(entry);
  if (extent == Extent::kWhole) {
    hasher.Update(bytes);
    return hasher.Hex();
  }
  for (size_t at = 0; at < bytes.size(); at += kSampleStep) {
    hasher.Update(bytes.subspan(at, std::min(bytes.size() - at, kSampleBytes)));
  }
  hasher.Update(bytes.last(std::min(bytes.size(), kSampleBytes)));
  return hasher.Hex();
}

template <typename Wanted>
TensorHashes HashWhere(const Checkpoint& checkpoint, Extent extent, const Wanted& wanted) {
  std::vector<const CheckpointTensor*> tensors;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (wanted(tensor)) tensors.push_back(&tensor);
  }
  std::vector<std::string> hashes(tensors.size());
  ParallelFor(tensors.size(), [&](size_t i) { hashes[i] = HashOf(*tensors[i], extent); });
  TensorHashes named;
  for (size_t i = 0; i < tensors.size(); ++i) named[tensors[i]->name()] = hashes[i];
  return named;
}

}  // namespace

TensorHashes HashTensors(const Checkpoint& checkpoint, bool all) {
  return HashWhere(checkpoint, Extent::kWhole, [&](const CheckpointTensor& tensor) {
    return all || checkpoint.Writes(*tensor.shard);
  });
}

std::string CombineHashes(const TensorHashes& hashes) {
  Hasher all;
  for (const auto& [name, hash] : hashes) all.Update(hash);
  return all.Hex();
}

std::string QuickHash(const Checkpoint& checkpoint) {
  Hasher all;
  all.Update(CombineHashes(
      HashWhere(checkpoint, Extent::kSamples, [](const CheckpointTensor&) { return true; })));
  for (const auto& shard : checkpoint.files().shards) {
    all.Update(shard->path().filename().string() + "\n");
  }
  return all.Hex();
}

std::string FormatPartFile(const PartFile& file) {
  nlohmann::ordered_json json;
  json["schema"] = kSchema;
  json["part"] = file.part.number;
  json["parts"] = file.part.count;
  json["source"] = file.source;
  json["whole"] = file.whole;
  json["files"] = file.files;
  json["tensors"] = file.tensors;
  return json.dump(1) + "\n";
}

PartFile ParsePartFile(std::string_view text, const std::string& where) {
  const auto json = ParseJson<nlohmann::json>(std::string(text), where);
  PartFile file;
  try {
    if (json.at("schema") == kSchema) {
      file.part = {json.at("part").get<int64_t>(), json.at("parts").get<int64_t>()};
      json.at("source").get_to(file.source);
      json.at("whole").get_to(file.whole);
      json.at("files").get_to(file.files);
      json.at("tensors").get_to(file.tensors);
      const auto is_name = [](const std::string& name) {
        return !name.empty() && name.find('/') == std::string::npos && name[0] != '.';
      };
      if (file.part.number >= 1 && file.part.number <= file.part.count &&
          std::all_of(file.files.begin(), file.files.end(), is_name)) {
        return file;
      }
    }
  } catch (const nlohmann::json::exception&) {  // the same error
  }
  throw ModelError("expected the description of a part, found something else",
                   "quantize the part again with --shards", where);
}

}  // namespace hif8
