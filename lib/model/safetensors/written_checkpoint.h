// Reads back what was written, for measuring.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lib/model/safetensors/checkpoint.h"
#include "lib/model/safetensors/stored_scales.h"
#include "lib/model/written_weight.h"
#include "lib/numeric/number_format.h"

namespace hif8 {

// Codes and scales of the weight `name` as they stand in a written file. `format` and `layout` are
// what the plan says of that weight. Throws kModel when the file does not fit them.
WrittenWeight ReadWrittenWeight(const SafetensorsFile& file, const std::string& name,
                                const NumberFormat& format, const TileLayout& layout);

// The quantized weights of a written folder, for measuring what was really written.
class WrittenCheckpoint {
 public:
  // Throws kModel when the folder does not fit `source`.
  WrittenCheckpoint(std::shared_ptr<const Checkpoint> source, const std::filesystem::path& folder);

  // Rows [begin, end) of the values of a tensor of the source, as written: decoded codes, or
  // floats.
  void ReadRows(const std::string& name, const FormatRegistry& formats, int64_t begin, int64_t end,
                float* values) const;

 private:
  // Returns the first of these tensors that is there, as stored. Throws kModel when none is.
  Tensor ReadTensor(const std::vector<std::string>& names) const;
  const SafetensorsEntry* Find(const std::string& name, const SafetensorsFile** shard) const;

  std::shared_ptr<const Checkpoint> source_;
  std::filesystem::path folder_;
  ShardList files_;
  std::string number_format_;  // that config.json gives U8 codes; empty where there are none
};

}  // namespace hif8
