// Which files make up a checkpoint.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "lib/model/safetensors/safetensors_file.h"

namespace hif8 {

struct ShardList {
  std::vector<std::shared_ptr<const SafetensorsFile>> shards;  // sorted by name, opened and checked
  std::string index_name;  // file name of the index, empty when there is none
  // Every other file below the folder, relative, sorted; without other weights in floats, which
  // loaders may take in the place of the shards.
  std::vector<std::string> side_files;
  std::map<std::string, std::string> shard_of;          // tensor -> file, as the index has it
  std::unordered_set<const SafetensorsEntry*> ignored;  // in a shard other than shard_of's
  std::vector<std::string> notices;  // what a user should know, one sentence each
};

// Returns the shards of a folder (those of its index; else model.safetensors alone; else every
// *.safetensors) or of a single file. Throws kModel when there are none, when they are an
// adapter's, when the index and the shards disagree (shard missing, tensor not in its shard), or
// when two shards hold one tensor and no index says which counts. Names are those in the folder,
// whatever links there are.
ShardList FindShards(const std::filesystem::path& path);

}  // namespace hif8
