// Writes a quantized checkpoint: the same files, names and order as the source, shard by shard.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lib/core/log.h"
#include "lib/model/safetensors/checkpoint.h"
#include "lib/model/safetensors/layout.h"
#include "lib/model/safetensors/quantization_config.h"
#include "lib/numeric/number_format.h"

namespace hif8 {

struct CheckpointPlan {
  LayoutKind layout = LayoutKind::kCompressedTensors;
  // Describes the operands of each quantized layer, by index into layers().
  std::map<int, LayerScheme> layers;
  // Static scales of the inputs of quantized layers, by index into layers().
  std::map<int, float> input_scales;
  // Static scales of the KV cache, by index into layers() of its caches.
  std::map<int, float> cache_scales;
  const NumberFormat* cache_format = nullptr;  // null: the cache is not quantized
  // Decoded weights in the source's own dtype instead of codes, and no quantization_config.
  bool simulated = false;
  // Everything else that decides the codes (the resolved recipe), as a hash or text: finished
  // shards of an interrupted run are taken over when it is the same.
  std::string fingerprint;
};

// The codes of weights()[index]. Called from a thread of its own, once per weight, in the order of
// the output; not called for shards that were finished before.
using WeightEncoder = std::function<EncodedWeight(int index)>;

// Told, in the writing thread, which weights are in a file that is finished; may be empty.
using FinishedWeights = std::function<void(std::vector<int> weights)>;

// Throws kModel for a file whose header would be longer than readers take. What stands in the
// plan's maps counts, not the scales themselves.
void CheckHeaders(const Checkpoint& source, const CheckpointPlan& plan);

// Writes every file of the checkpoint into `folder`, which exists. Tensors that are not quantized
// are copied byte for byte, FP8 ones decoded into the checkpoint's own dtype. The next weights are
// encoded while one is written; at most about 0.1 GiB of codes wait (or one weight). `formats`
// decodes for `simulated`. Errors of the disk are kEnvironment.
void WriteCheckpoint(const Checkpoint& source, const CheckpointPlan& plan,
                     const FormatRegistry& formats, const WeightEncoder& encode,
                     const std::filesystem::path& folder, LogSink& log,
                     const FinishedWeights& finished = {});

}  // namespace hif8
