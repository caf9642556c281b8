// Which files make up a checkpoint.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lib/model/safetensors/safetensors_file.h"

namespace hif8 {

struct ShardList {
  std::vector<std::shared_ptr<const SafetensorsFile>> shards;  // sorted by name, opened and checked
  std::string index_name;               // file name of the index, empty when there is none
  std::vector<std::string> side_files;  // every other file below the folder, relative, sorted
};

// The shards of a folder (those of its index; else model.safetensors alone; else every
// *.safetensors) or of a single file. Throws kModel when there are none, when the index and the
// shards disagree (shard missing, tensor not in its shard), or when two shards hold one tensor.
ShardList FindShards(const std::filesystem::path& path);

}  // namespace hif8
