// What a written checkpoint's config.json says about its quantization (compressed-tensors).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/model/safetensors/checkpoint.h"
#include "lib/numeric/scale_layout.h"
#include "lib/numeric/tile_scaling.h"

namespace hif8 {

// Describes the operands of a Linear.
struct LayerScheme {
  std::string weight_format;  // number format's name
  int weight_bits = 8;        // 4: two codes a byte
  Granularity weight_granularity = Granularity::kChannel;
  TileScales::Tile weight_tile{1, kWholeEdge};  // rows x inputs that share a scale
  DType scale_dtype = DType::kF32;              // of the weight's scales; U8: E8M0
  std::string input_format;                     // empty: the input is not quantized
  int input_bits = 8;
  Granularity input_granularity = Granularity::kTensor;
  TileScales::Tile input_tile{1, kWholeEdge};
  bool input_e8m0 = false;    // scales are powers of two
  bool input_dynamic = true;  // false: a static scale is written

  bool operator==(const LayerScheme&) const = default;
};

// Returns the type that codes of a number format are stored as: the safetensors type of its
// elements where there is one (FP8, INT8), else U8.
DType CodeDType(const std::string& format);

// Returns the type that config.json names for what is not quantized; BF16 where it names none.
DType OwnDType(const ModelConfig& config);

// Returns the text of config.json: the source's, everything in its order, with the
// quantization_config for these layers (by index into layers()) in the place of its own or at the
// end; without any where nothing is quantized. `cache_format`: the cache's number format, or empty.
std::string QuantizedConfigText(const Checkpoint& source, const std::map<int, LayerScheme>& layers,
                                const std::string& cache_format);

}  // namespace hif8
