#include "lib/model/safetensors/shard_list.h"

#include <algorithm>
#include <array>
#include <map>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/file_list.h"
#include "lib/core/input_file.h"
#include "lib/model/safetensors/json_text.h"

namespace hif8 {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kExtension = ".safetensors";
constexpr std::string_view kIndexExtension = ".safetensors.index.json";
constexpr std::string_view kUsualName = "model.safetensors";

bool InTopFolder(const std::string& name) { return name.find('/') == std::string::npos; }

// Weights in floats beside the shards: loaders take some of them before the shards
// (model.safetensors, consolidated*), or any file that torch.save wrote, but for those of a
// training that are no weights.
bool IsStrayWeights(std::string_view name) {
  constexpr std::string_view kOriginal = "original/";
  static constexpr std::array<std::string_view, 7> kOfTraining = {
      "training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.bin",
      "scheduler.pt",      "scaler.pt",     "rng_state.pth"};
  if (name.starts_with(kOriginal)) name.remove_prefix(kOriginal.size());
  if (name.find('/') != std::string_view::npos) return false;
  if (std::find(kOfTraining.begin(), kOfTraining.end(), name) != kOfTraining.end()) return false;
  if (name.ends_with(".index.json")) name.remove_suffix(std::string_view(".index.json").size());
  if (name.ends_with(kExtension)) return name == kUsualName || name.starts_with("consolidated");
  return name.ends_with(".bin") || name.ends_with(".pth") || name.ends_with(".pt");
}

std::string ChooseIndex(const std::vector<std::string>& files, const fs::path& folder) {
  std::vector<std::string> found;
  for (const std::string& name : files) {
    if (InTopFolder(name) && name.ends_with(kIndexExtension)) found.push_back(name);
  }
  const std::string usual = std::string(kUsualName) + ".index.json";
  if (std::find(found.begin(), found.end(), usual) != found.end()) return usual;
  if (found.size() > 1) {
    throw ModelError("two index files, '" + found[0] + "' and '" + found[1] + "'",
                     "keep the one to be used in a folder of its own", folder.string());
  }
  return found.empty() ? "" : found[0];
}

// Tensor -> shard file name, as the index has it.
std::map<std::string, std::string> ReadIndex(const fs::path& path) {
  const auto index = ParseJson<nlohmann::json>(ReadFile(path), path.string());
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object()) {
    throw ModelError("expected an object 'weight_map'",
                     "get the index again from where the checkpoint came", path.string());
  }
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
      throw ModelError("tensor '" + tensor + "': expected a file name of this folder, found " +
                           file.dump().substr(0, 80),
                       "put all files of the checkpoint into one folder, under their names",
                       path.string());
    }
    shards[tensor] = name;
  }
  return shards;
}

// Which shard a tensor is taken from: the index says so where it names the tensor.
class Owners {
 public:
  explicit Owners(ShardList* list) : list_(list) {
    for (const auto& shard : list->shards) {
      for (const SafetensorsEntry& entry : shard->tensors()) Add(shard.get(), entry);
    }
  }

 private:
  struct Owner {
    const SafetensorsFile* shard;
    const SafetensorsEntry* entry;
  };

  void Add(const SafetensorsFile* shard, const SafetensorsEntry& entry) {
    const auto [it, added] = owners_.emplace(entry.name, Owner{shard, &entry});
    if (added) return;
    const auto chosen = list_->shard_of.find(entry.name);
    const std::string first = NameOf(it->second.shard), second = NameOf(shard);
    if (chosen == list_->shard_of.end()) {
      throw ModelError("tensor '" + entry.name + "' is in two shards, " + first + " and " + second,
                       "remove the one that does not belong to the checkpoint",
                       shard->path().string());
    }
    const bool first_chosen = chosen->second == first;
    list_->ignored.insert(first_chosen ? &entry : it->second.entry);
    if (!first_chosen && chosen->second == second) it->second = {shard, &entry};
    list_->notices.push_back("tensor '" + entry.name + "' is in " + first + " and in " + second +
                             ": taken from " + chosen->second + ", as the index has it");
  }

  static std::string NameOf(const SafetensorsFile* shard) {
    return shard->path().filename().string();
  }

  ShardList* list_;
  std::unordered_map<std::string_view, Owner> owners_;
};

void OpenIndexed(const fs::path& folder, ShardList* list) {
  const fs::path index_path = folder / list->index_name;
  std::map<std::string, std::shared_ptr<const SafetensorsFile>> shards;
  list->shard_of = ReadIndex(index_path);
  for (const auto& [tensor, file] : list->shard_of) {
    std::shared_ptr<const SafetensorsFile>& shard = shards[file];
    if (shard == nullptr) {
      if (!fs::exists(folder / file)) {
        throw ModelError(
            "shard '" + file + "' is missing (the index names it for tensor '" + tensor + "')",
            "complete the download", index_path.string());
      }
      shard = SafetensorsFile::Open(folder / file);
    }
    if (shard->Find(tensor) == nullptr) {
      throw ModelError("tensor '" + tensor + "' is not in its shard '" + file + "'",
                       "the index and the shards do not belong together", index_path.string());
    }
  }
  for (const auto& [name, shard] : shards) list->shards.push_back(shard);
}

// What a fine-tuning saves without the model that it belongs to.
bool IsAdapter(const ShardList& list) {
  bool any = false;
  for (const auto& shard : list.shards) {
    for (const SafetensorsEntry& entry : shard->tensors()) {
      any = true;
      if (entry.name.find("lora_") == std::string::npos) return false;
    }
  }
  return any;
}

Error NoModel(const fs::path& path, const std::vector<std::string>& files) {
  const auto find = [&](const auto& wanted) {
    const auto at = std::find_if(files.begin(), files.end(), wanted);
    return at == files.end() ? std::string() : *at;
  };
  const std::string onnx = find([](const std::string& name) { return name.ends_with(".onnx"); });
  if (!onnx.empty()) {
    return ModelError("expected *.safetensors files, found none",
                      "for an ONNX model give the file itself: " + (path / onnx).string(),
                      path.string());
  }
  return ModelError("expected *.safetensors files, found none",
                    "give the folder of a Hugging Face checkpoint", path.string());
}

Error AdapterError(const fs::path& path) {
  return ModelError("expected a model, found an adapter (LoRA) without its base model",
                    "merge it into its base model first, as PEFT's merge_and_unload does, and give "
                    "the result",
                    path.string());
}

void OpenShards(const fs::path& path, const std::vector<std::string>& files, ShardList* list) {
  list->index_name = ChooseIndex(files, path);
  if (!list->index_name.empty()) return OpenIndexed(path, list);
  if (std::find(files.begin(), files.end(), kUsualName) != files.end()) {
    list->shards.push_back(SafetensorsFile::Open(path / kUsualName));
    return;
  }
  for (const std::string& name : files) {
    if (InTopFolder(name) && name.ends_with(kExtension)) {
      list->shards.push_back(SafetensorsFile::Open(path / name));
    }
  }
}

}  // namespace

ShardList FindShards(const fs::path& path) {
  ShardList list;
  if (!fs::exists(path))
    throw ModelError("no such file or folder", "check the path", path.string());
  if (!fs::is_directory(path)) {
    list.shards.push_back(SafetensorsFile::Open(path));
    if (IsAdapter(list)) throw AdapterError(path);
    return list;
  }
  FileList found = ListFiles(path);
  const std::vector<std::string>& files = found.files;
  list.notices = std::move(found.notices);
  OpenShards(path, files, &list);
  if (list.shards.empty()) {
    const bool adapter =
        std::find(files.begin(), files.end(), "adapter_config.json") != files.end();
    throw adapter ? AdapterError(path) : NoModel(path, files);
  }
  if (IsAdapter(list)) throw AdapterError(path);
  const Owners owners(&list);
  for (const std::string& name : files) {
    const bool is_shard = std::any_of(
        list.shards.begin(), list.shards.end(),
        [&](const auto& shard) { return InTopFolder(name) && shard->path().filename() == name; });
    if (is_shard || name == list.index_name || name == "config.json") continue;
    if (IsStrayWeights(name)) {
      list.notices.push_back("'" + name +
                             "' holds weights beside the checkpoint's own, which a loader may "
                             "prefer: left out");
      continue;
    }
    list.side_files.push_back(name);
    if (!list.index_name.empty() && InTopFolder(name) && name.ends_with(kExtension)) {
      list.notices.push_back("'" + name + "' is named by no index: copied as it is");
    }
  }
  return list;
}

}  // namespace hif8
