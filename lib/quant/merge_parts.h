// Joins what --shards K/N wrote, part by part, into what one process would have written.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "lib/model/model.h"
#include "lib/model/safetensors/checkpoint.h"
#include "lib/model/safetensors/checkpoint_part.h"

namespace hif8 {

struct Part {
  std::filesystem::path folder;
  PartFile file;
};

// Reads and orders the parts of one checkpoint. Throws kUsage when one is missing or given twice,
// or when they come from different sources or recipes; kModel for folders that are no parts.
std::vector<Part> ReadParts(std::span<const std::filesystem::path> folders);
// Tells whether every byte of the parts' sources is known to be the same. Each part has read the
// tensors whole that it wrote, and samples of all others: where no part has read everything,
// sources that differ between the samples are not told apart.
bool AreOfOneSource(std::span<const Part> parts);
// Throws kUsage when a part was not made from this checkpoint, of which every byte is read.
void CheckSource(std::span<const Part> parts, const Checkpoint& source);

// Holds what is known only of all parts together.
struct MergedModel {
  std::string hash;
  uint64_t bytes = 0;  // of the shards
};
// Puts every file but report.json into `dir`, which exists. Shards are hard links to those of the
// parts where the file system allows it, else copies.
MergedModel MergeParts(std::span<const Part> parts, const std::filesystem::path& dir);

}  // namespace hif8
