#include "lib/quant/merge_parts.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/file_list.h"
#include "lib/core/input_file.h"
#include "lib/core/interrupt.h"
#include "lib/core/output_dir.h"
#include "lib/quant/calibration_file.h"

namespace hif8 {
namespace fs = std::filesystem;
namespace {

constexpr const char* kCalibration = OutputDir::kCalibration;
constexpr const char* kRecipe = OutputDir::kRecipe;
// What every part writes for itself.
const std::set<std::string> kOwnFiles = {PartFile::kName, kCalibration, "report.json", kFileList};

// Two parts do not belong together; `what` differs.
Error Different(const std::string& what, const Part& a, const Part& b, const std::string& hint) {
  return UsageError("expected parts of one run, found two " + what + ": " + a.folder.string() +
                        " and " + b.folder.string(),
                    hint, b.folder.string());
}

void CheckNumbers(const std::vector<Part>& parts) {
  const int64_t count = parts.front().file.part.count;
  for (size_t i = 1; i < parts.size(); ++i) {
    const Part& before = parts[i - 1];
    if (parts[i].file.part.count != count) {
      throw Different(
          "divisions (" + before.file.part.Text() + " and " + parts[i].file.part.Text() + ")",
          before, parts[i], "give the parts of one division");
    }
    if (parts[i].file.part.number == before.file.part.number) {
      throw UsageError("part " + before.file.part.Text() + " is given twice: " +
                           before.folder.string() + " and " + parts[i].folder.string(),
                       "give each part once");
    }
  }
  std::string missing;
  size_t at = 0;
  for (int64_t k = 1; k <= count; ++k) {
    if (at < parts.size() && parts[at].file.part.number == k) {
      ++at;
    } else if (missing.size() < 80) {
      missing += (missing.empty() ? "" : ", ") + std::to_string(k) + "/" + std::to_string(count);
    }
  }
  if (missing.empty()) return;
  throw UsageError("expected all " + std::to_string(count) + " parts, missing: " + missing,
                   "give every folder that --shards wrote");
}

// Paths of the files that are the same in every part, relative to its folder.
std::set<std::string> CommonFiles(const Part& part) {
  std::set<std::string> names;
  const std::set<std::string> shards(part.file.files.begin(), part.file.files.end());
  for (std::string& name : ListFiles(part.folder).files) {
    if (!shards.contains(name) && !kOwnFiles.contains(name)) names.insert(std::move(name));
  }
  return names;
}

// Every tensor as the part read it that wrote it.
TensorHashes AllTensors(std::span<const Part> parts) {
  TensorHashes all;
  for (const Part& part : parts) all.insert(part.file.tensors.begin(), part.file.tensors.end());
  return all;
}

// A part that read everything knows what the others must have read.
void CheckWhole(const std::vector<Part>& parts) {
  const std::string hash = CombineHashes(AllTensors(parts));
  for (const Part& part : parts) {
    if (part.file.whole.empty() || part.file.whole == hash) continue;
    const Part& other = &part == &parts.front() ? parts.back() : parts.front();
    throw Different("checkpoints", other, part, "quantize all parts from one checkpoint");
  }
}

void CheckCommonFiles(const std::vector<Part>& parts) {
  const Part& first = parts.front();
  const std::set<std::string> names = CommonFiles(first);
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].file.source != first.file.source) {
      throw Different("checkpoints", first, parts[i], "quantize all parts from one checkpoint");
    }
    const auto differ = [&](const std::string& name) {
      return ReadFile(first.folder / name, UINT64_MAX) !=
             ReadFile(parts[i].folder / name, UINT64_MAX);
    };
    if (fs::exists(parts[i].folder / kRecipe) && differ(kRecipe)) {
      throw Different("recipes", first, parts[i],
                      "compare their recipe.yaml and quantize the parts again with one recipe");
    }
    if (CommonFiles(parts[i]) != names || std::any_of(names.begin(), names.end(), differ)) {
      throw Different("results (config.json or the files beside it)", first, parts[i],
                      "quantize the parts again with the same options");
    }
  }
}

void Place(const fs::path& from, const fs::path& to, bool link) {
  CheckInterrupt();
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  if (!error && link) fs::create_hard_link(from, to, error);
  if (!error && link) return;
  error.clear();
  fs::copy_file(from, to, error);
  if (error) throw WriteError(to, error.value());
}

// The hashes of the weights' scales, each from the part that made them.
std::string MergeCalibrations(std::span<const Part> parts, const std::string& hash) {
  Calibration all;
  for (const Part& part : parts) {
    const fs::path path = part.folder / kCalibration;
    Calibration one = ParseCalibration(ReadFile(path), path.string());
    if (&part == &parts.front()) {
      all = std::move(one);
      continue;
    }
    bool same = all.layers.size() == one.layers.size();
    for (size_t i = 0; same && i < all.layers.size(); ++i) {
      same = all.layers[i].layer == one.layers[i].layer;
      if (!one.layers[i].weight_hash.empty()) all.layers[i].weight_hash = one.layers[i].weight_hash;
    }
    if (!same) {
      throw Different("lists of layers in calibration.yaml", parts.front(), part,
                      "quantize the parts again with the same options");
    }
  }
  all.model.hash = hash;
  return FormatCalibration(all);
}

}  // namespace

std::vector<Part> ReadParts(std::span<const fs::path> folders) {
  std::vector<Part> parts;
  for (const fs::path& folder : folders) {
    const fs::path file = folder / PartFile::kName;
    if (!fs::exists(file)) {
      throw ModelError("expected the output of --shards, found no " + std::string(PartFile::kName),
                       "a part that was interrupted is finished by the same command",
                       folder.string());
    }
    parts.push_back({folder, ParsePartFile(ReadFile(file), file.string())});
  }
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.file.part.number < b.file.part.number;
  });
  CheckNumbers(parts);
  CheckCommonFiles(parts);
  CheckWhole(parts);
  return parts;
}

bool AreOfOneSource(std::span<const Part> parts) {
  return parts.size() == 1 || std::any_of(parts.begin(), parts.end(),
                                          [](const Part& p) { return !p.file.whole.empty(); });
}

void CheckSource(std::span<const Part> parts, const Checkpoint& source) {
  const TensorHashes expected = HashTensors(source, true);
  for (const Part& part : parts) {
    for (const auto& [name, hash] : part.file.tensors) {
      const auto found = expected.find(name);
      if (found != expected.end() && found->second == hash) continue;
      throw UsageError("tensor '" + name + "' is not what part " + part.file.part.Text() +
                           " was made from: " + part.folder.string(),
                       "quantize all parts from this checkpoint", source.path().string());
    }
  }
  if (AllTensors(parts).size() == expected.size()) return;
  throw UsageError("the checkpoint has tensors that no part holds",
                   "quantize all parts from this checkpoint", source.path().string());
}

MergedModel MergeParts(std::span<const Part> parts, const fs::path& dir) {
  MergedModel merged;
  for (const Part& part : parts) {
    for (const std::string& name : part.file.files) {
      Place(part.folder / name, dir / name, true);
      merged.bytes += fs::file_size(dir / name);
    }
  }
  for (const std::string& name : CommonFiles(parts.front())) {
    Place(parts.front().folder / name, dir / name, false);
  }
  merged.hash = CombineHashes(AllTensors(parts));
  WriteFile(dir / kCalibration, MergeCalibrations(parts, merged.hash));
  return merged;
}

}  // namespace hif8
