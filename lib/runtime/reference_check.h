// A checkpoint's network against a recorded run of another implementation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lib/core/log.h"
#include "lib/model/safetensors/checkpoint.h"
#include "lib/numeric/number_format.h"

namespace hif8 {

// Compares one Linear's input: its largest magnitude.
struct InputCheck {
  std::string layer;
  int block = -1;
  double recorded = 0;
  double found = 0;

  double difference() const;  // relative
};

struct ReferenceCheck {
  std::vector<double> blocks;      // |difference| / |recorded| of the hidden states behind each
  std::vector<InputCheck> inputs;  // those that were recorded, in the order of computation
  double logits = 0;               // |difference| / |recorded|
};

// `reference` has `input_ids` [samples, tokens] (I64) or `pixel_values` [samples, channels, size,
// size], `hidden_states.N` and `logits` (or `image_embeds`, `pooler_output`; fp32) and may have
// `input_amax.MODULE` with one number each. Throws kModel where it has not or where the network
// cannot run.
ReferenceCheck CheckReference(const std::shared_ptr<const Checkpoint>& checkpoint,
                              const std::filesystem::path& reference, const FormatRegistry& formats,
                              LogSink& log);

}  // namespace hif8
