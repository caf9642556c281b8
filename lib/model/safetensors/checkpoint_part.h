// A fixed part of a checkpoint's files (--shards K/N), and what tells whether parts belong
// together.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/model.h"

namespace hif8 {

class Checkpoint;

struct CheckpointPart {
  int64_t number = 1;  // 1 to count
  int64_t count = 1;

  // Parts are consecutive files; their numbers of files differ by one at most.
  bool HoldsFile(size_t index, size_t files) const {
    const auto first = [&](int64_t k) {
      return files * static_cast<size_t>(k) / static_cast<size_t>(count);
    };
    return first(number - 1) <= index && index < first(number);
  }
  // Returns "2/3"
  std::string Text() const { return std::to_string(number) + "/" + std::to_string(count); }
};

// Hashes of tensors (name, type, shape and bytes) by name.
using TensorHashes = std::map<std::string, std::string>;
// Reads every byte of the tensors that the checkpoint's part holds, or of all.
TensorHashes HashTensors(const Checkpoint& checkpoint, bool all);
// The hash of a model that has these tensors, whatever files they are in.
std::string CombineHashes(const TensorHashes& hashes);
// Tells checkpoints apart at the cost of a few bytes per tensor, which are all that a part reads of
// the files of others: names, types and shapes, the first and last bytes of every tensor, and some
// every 16 MiB.
std::string QuickHash(const Checkpoint& checkpoint);

// A file that stands in the output of a part.
struct PartFile {
  CheckpointPart part;
  std::string source;  // QuickHash()
  std::string whole;   // CombineHashes() of all tensors where the part read them, or empty
  std::vector<std::string> files;  // shards that the part wrote
  TensorHashes tensors;            // of the source's tensors in these shards

  static constexpr const char* kName = "hif8-part.json";
};
std::string FormatPartFile(const PartFile& file);
// Throws kModel for text that FormatPartFile() did not write; `where` names the file.
PartFile ParsePartFile(std::string_view text, const std::string& where);

}  // namespace hif8
