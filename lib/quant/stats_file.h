// The statistics file of --stats-out and --stats-in: what a pass over the calibration data saw,
// bound to the model it was seen with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/model.h"
#include "lib/numeric/tensor_stats.h"

namespace hif8 {

struct StatsFile {
  Fingerprint model;
  uint64_t samples = 0;                                     // that the pass went through
  bool synthetic = false;                                   // some of the data was made up
  std::map<std::string, TensorStats, std::less<>> records;  // by activation name

  // Adds what another pass with the same model saw: counts exactly and in any order, traces behind
  // this one's. A name that only one of them has is taken as it is. Throws kModel naming both
  // models when they differ; `where` names the other one's file.
  void Merge(StatsFile&& later, const std::string& where);
};

// Returns the records in the order of `activations`; those of other names are left out.
std::vector<TensorStats> ByActivation(StatsFile&& stats,
                                      const std::vector<Activation>& activations);

// Converts to the bytes of a file and back. Throws kModel when the bytes are no statistics file,
// are truncated or damaged, or of another version.
std::string SerializeStats(const StatsFile& stats);
StatsFile ParseStats(std::string_view bytes, const std::string& where);

// Writes a temporary name, fsyncs and renames. Throws kEnvironment when the file cannot be written.
void WriteStatsFile(const std::filesystem::path& path, const StatsFile& stats);

// Reads one or more files, merged in the given order. Throws kModel also when one of them is of
// another model than `model`.
StatsFile ReadStatsFiles(std::span<const std::filesystem::path> paths, const Fingerprint& model);

}  // namespace hif8
