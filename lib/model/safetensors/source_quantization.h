// Checkpoints that come quantized: which are read, and what the others are called.
#pragma once

#include <string>

#include "lib/core/error.h"
#include "lib/model/safetensors/model_config.h"
#include "lib/model/safetensors/shard_list.h"

namespace hif8 {

// Throws kModel naming method or tensor for checkpoints that are quantized in a way that is not
// read (GPTQ, AWQ, bitsandbytes, ...), or by this program.
void CheckSourceQuantization(const ModelConfig& config, const ShardList& shards);

// Tells whether tensors may be codes, by their types.
bool MayHoldCodes(const ShardList& shards);

// Returns the error for a checkpoint that is quantized in that way.
Error AlreadyQuantized(const std::string& how, const std::string& where);

}  // namespace hif8
