// Which tensors each written shard holds. Internal to this module.
#pragma once

#include <string>
#include <vector>

#include "lib/model/safetensors/checkpoint.h"
#include "lib/model/safetensors/checkpoint_writer.h"

namespace hif8 {

struct OutputTensor {
  enum class Kind {
    kCopy,       // the source's bytes
    kDecoded,    // an FP8 tensor in the checkpoint's own dtype
    kCodes,      // of `weight`
    kPacked,     // of `weight`, two a byte
    kScales,     // of `weight`
    kGlobal,     // of `weight`, what its scales are stored over
    kSimulated,  // decoded codes of `weight` in the source's own dtype
    kValue       // one fp32 number
  };
  Kind kind;
  SafetensorsEntry entry;                    // name, dtype and shape as written
  const CheckpointTensor* source = nullptr;  // null for kValue
  int weight = -1;
  float value = 0;
};

struct OutputShard {
  std::string name;  // of the file
  const SafetensorsFile* source;
  std::vector<OutputTensor> tensors;
};

// The names of what belongs to the weight tensor `weight` ("X.weight", or "X" of fused experts).
std::string PackedName(const std::string& weight);  // of four-bit codes
std::string WeightScaleName(const std::string& weight);
std::string GlobalScaleName(const std::string& weight);
std::string InputScaleName(const std::string& weight);
std::string InputGlobalScaleName(const std::string& weight);

// In the source's order; new scales follow their weights.
std::vector<OutputShard> LayOutShards(const Checkpoint& source, const CheckpointPlan& plan);

// Returns the bytes of the tensors of one shard.
uint64_t DataBytes(const OutputShard& shard);

}  // namespace hif8
