// Which tensors each written shard holds. Internal to this module.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "lib/model/safetensors/checkpoint.h"
#include "lib/model/safetensors/checkpoint_writer.h"

namespace hif8 {

struct QuantizedLayer;

struct OutputTensor {
  enum class Kind {
    kCopy,       // the source's bytes
    kDecoded,    // a quantized tensor of the source in the checkpoint's own dtype
    kCodes,      // of `weight`
    kPacked,     // of `weight`, two a byte
    kSimulated,  // decoded codes of `weight` in the source's own dtype
    kMade,       // what `make` gives of the codes and scales of the weight before it
    kValues      // `values`, or the one for all elements
  };
  Kind kind = Kind::kCopy;
  SafetensorsEntry entry = {};               // name, dtype and shape as written
  const CheckpointTensor* source = nullptr;  // that it is read from; null: none
  const CheckpointTensor* bias = nullptr;    // that `make` reads too, in any shard; null: none
  int weight = -1;
  std::vector<float> values = {};
  std::function<std::vector<std::byte>(const EncodedWeight&)> make = {};
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

// The codes of a layer's weight, four-bit ones two a byte.
OutputTensor CodesTensor(const QuantizedLayer& layer, const std::string& name);
// Its scales in the type and shape that its scheme has. Scales that stand for several runs of rows
// are repeated.
OutputTensor ScalesTensor(const QuantizedLayer& layer, const std::string& name);
// These numbers, or the one for all elements.
OutputTensor ValueTensor(const std::string& name, DType dtype, Shape shape,
                         std::vector<float> values);
// Made of the codes and scales of the layer's weight, and of `bias` where that is given.
OutputTensor MadeTensor(const QuantizedLayer& layer, const std::string& name, DType dtype,
                        Shape shape,
                        std::function<std::vector<std::byte>(const EncodedWeight&)> make,
                        const CheckpointTensor* bias = nullptr);

// The numbers in that type, floats or I32 (rounded to nearest).
std::vector<std::byte> NumberBytes(std::span<const float> values, DType dtype);

// In the source's order; what is made of a weight follows it.
std::vector<OutputShard> LayOutShards(const Checkpoint& source, const CheckpointPlan& plan);

// Returns the bytes of the tensors of one shard.
uint64_t DataBytes(const OutputShard& shard);

}  // namespace hif8
