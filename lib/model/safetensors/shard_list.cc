#include "lib/model/safetensors/shard_list.h"

#include <algorithm>
#include <map>
#include <system_error>
#include <unordered_map>

#include "lib/core/error.h"
#include "lib/core/input_file.h"
#include "lib/model/safetensors/json_text.h"

namespace hif8 {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kExtension = ".safetensors";
constexpr std::string_view kIndexExtension = ".safetensors.index.json";
constexpr std::string_view kUsualName = "model.safetensors";

std::vector<std::string> FilesBelow(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(folder, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (it->is_regular_file()) files.push_back(fs::relative(it->path(), folder).generic_string());
  }
  if (error) {
    throw ModelError("cannot list the folder: " + error.message(), "", folder.string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool InTopFolder(const std::string& name) { return name.find('/') == std::string::npos; }

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
    throw ModelError("expected an object 'weight_map'", "", path.string());
  }
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
      throw ModelError("tensor '" + tensor + "': expected a file name of this folder, found " +
                           file.dump().substr(0, 80),
                       "", path.string());
    }
    shards[tensor] = name;
  }
  return shards;
}

void CheckNoTensorTwice(const ShardList& list) {
  std::unordered_map<std::string_view, const SafetensorsFile*> owner;
  for (const auto& shard : list.shards) {
    for (const SafetensorsEntry& entry : shard->tensors()) {
      const auto [it, added] = owner.emplace(entry.name, shard.get());
      if (added) continue;
      throw ModelError(
          "tensor '" + entry.name + "' is in two shards, " +
              it->second->path().filename().string() + " and " + shard->path().filename().string(),
          "remove the one that does not belong to the checkpoint", shard->path().string());
    }
  }
}

void OpenIndexed(const fs::path& folder, ShardList* list) {
  const fs::path index_path = folder / list->index_name;
  std::map<std::string, std::shared_ptr<const SafetensorsFile>> shards;
  for (const auto& [tensor, file] : ReadIndex(index_path)) {
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

}  // namespace

ShardList FindShards(const fs::path& path) {
  ShardList list;
  if (!fs::exists(path)) throw ModelError("no such file or folder", "", path.string());
  if (!fs::is_directory(path)) {
    list.shards.push_back(SafetensorsFile::Open(path));
    return list;
  }
  const std::vector<std::string> files = FilesBelow(path);
  list.index_name = ChooseIndex(files, path);
  if (!list.index_name.empty()) {
    OpenIndexed(path, &list);
  } else if (std::find(files.begin(), files.end(), kUsualName) != files.end()) {
    list.shards.push_back(SafetensorsFile::Open(path / kUsualName));
  } else {
    for (const std::string& name : files) {
      if (InTopFolder(name) && name.ends_with(kExtension)) {
        list.shards.push_back(SafetensorsFile::Open(path / name));
      }
    }
  }
  if (list.shards.empty()) {
    const auto onnx = std::find_if(files.begin(), files.end(),
                                   [](const std::string& name) { return name.ends_with(".onnx"); });
    throw ModelError("expected *.safetensors files, found none",
                     onnx == files.end()
                         ? "give the folder of a Hugging Face checkpoint"
                         : "for an ONNX model give the file itself: " + (path / *onnx).string(),
                     path.string());
  }
  CheckNoTensorTwice(list);
  for (const std::string& name : files) {
    const bool is_shard = std::any_of(
        list.shards.begin(), list.shards.end(),
        [&](const auto& shard) { return InTopFolder(name) && shard->path().filename() == name; });
    if (!is_shard && name != list.index_name && name != "config.json") {
      list.side_files.push_back(name);
    }
  }
  return list;
}

}  // namespace hif8
