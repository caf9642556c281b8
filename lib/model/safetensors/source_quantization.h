// Checkpoints that come quantized: FP8 is read, everything else refused by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/core/tensor.h"
#include "lib/model/safetensors/model_config.h"
#include "lib/model/safetensors/shard_list.h"

namespace hif8 {

// Rows and columns of the blocks that share a scale (DeepSeek-V3: 128 x 128).
struct Fp8Blocks {
  int64_t rows = 128;
  int64_t columns = 128;
};

// Returns the block size of an FP8 checkpoint, from its quantization_config; the usual one where it
// says nothing. Throws kModel naming method or tensor for checkpoints that are quantized in another
// way (GPTQ, AWQ, INT8, ...).
Fp8Blocks CheckSourceQuantization(const ModelConfig& config, const ShardList& shards);

// The tensors of module X that belong to its old quantization alone and disappear with it.
inline constexpr const char* kFp8CompanionSuffixes[] = {".weight_scale_inv", ".weight_scale",
                                                        ".input_scale"};

// Decodes an FP8 weight in parts: value = E4M3 x scale, one fp32 product.
class Fp8Weight {
 public:
  // `scale` (F32, BF16 or F16) is a scalar, one per row ([out] or [out, 1]) or one per block;
  // anything else throws kModel naming `name`. The bytes of `codes` must outlive the object.
  Fp8Weight(const TensorView& codes, const TensorView& scale, const Fp8Blocks& blocks,
            const std::string& name, const std::string& where);

  // Elements [begin, begin + n).
  void Decode(size_t begin, size_t n, float* values) const;

 private:
  const uint8_t* codes_;
  int64_t rows_, columns_;
  int64_t block_rows_, block_columns_;
  int64_t scale_columns_ = 0;
  std::vector<float> scales_;
};

}  // namespace hif8
