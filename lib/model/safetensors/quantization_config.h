// What a written checkpoint's config.json says about its quantization (compressed-tensors).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/model/safetensors/checkpoint.h"
#include "lib/numeric/number_format.h"
#include "lib/numeric/scale_layout.h"
#include "lib/numeric/tile_scaling.h"

namespace hif8 {

// Describes the operands of a Linear.
struct LayerScheme {
  const NumberFormat* weight_format = nullptr;  // outlives the scheme, as the input's
  Granularity weight_granularity = Granularity::kChannel;
  TileScales::Tile weight_tile{1, kWholeEdge};  // rows x inputs that share a scale
  DType scale_dtype = DType::kF32;              // of the weight's scales
  const NumberFormat* input_format = nullptr;   // null: the input is not quantized
  Granularity input_granularity = Granularity::kTensor;
  TileScales::Tile input_tile{1, kWholeEdge};
  bool input_dynamic = true;  // false: a static scale is written

  bool operator==(const LayerScheme&) const = default;
};

// Returns the type that config.json names for what is not quantized; BF16 where it names none.
DType OwnDType(const ModelConfig& config);

// Returns the text of config.json: the source's, everything in its order, with the
// quantization_config for these layers (by index into layers()) in the place of its own or at the
// end; without any where nothing is quantized. `cache_format`: the cache's; null: it is none.
std::string QuantizedConfigText(const Checkpoint& source, const std::map<int, LayerScheme>& layers,
                                const NumberFormat* cache_format);

}  // namespace hif8
