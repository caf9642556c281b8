// Small checkpoints written with scales that need no data.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "formats/builtin.h"
#include "lib/model/safetensors/checkpoint_writer.h"
#include "lib/runtime/activation_source.h"
#include "tests/paths.h"

namespace hif8 {

inline const std::filesystem::path kModels = std::filesystem::path(HIF8_TEST_DATA_DIR) / "models";

// With a power of two as scale every decoded value is exact in BF16.
inline EncodedWeight EncodePowerOfTwo(const Checkpoint& checkpoint, int index) {
  const Weight& weight = checkpoint.weights()[static_cast<size_t>(index)];
  const NumberFormat& format = BuiltinFormats().Get("hif8");
  std::vector<float> buffer;
  const Tensor tensor = checkpoint.ReadWeight(index);
  EncodedWeight encoded;
  encoded.format = "hif8";
  encoded.layout = weight.channels;
  encoded.scales.assign(weight.channels.channels, 0.0078125f);
  for (const float x : AsFloats(tensor.view, &buffer)) {
    encoded.codes.push_back(format.EncodeOne(x / 0.0078125f, Overflow::kSaturate));
  }
  return encoded;
}

// `only`: layers to write codes for; empty: every one that `all` allows.
inline void WriteTestCheckpoint(const std::shared_ptr<const Checkpoint>& checkpoint,
                                const std::filesystem::path& to, bool simulated, bool all,
                                const LayerSet& only = {}) {
  CheckpointPlan plan;
  plan.simulated = simulated;
  for (size_t i = 0; i < checkpoint->layers().size(); ++i) {
    const Layer& layer = checkpoint->layers()[i];
    if (layer.weight < 0 || (layer.optional && !all)) continue;
    if (!only.empty() && !only[i]) continue;
    plan.layers[static_cast<int>(i)].weight_format = &BuiltinFormats().Get("hif8");
  }
  WriteCheckpoint(
      *checkpoint, plan, BuiltinFormats(),
      [&](int index) { return EncodePowerOfTwo(*checkpoint, index); }, to, NullLog());
}

}  // namespace hif8
