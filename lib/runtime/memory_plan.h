// What a pass through a checkpoint's network may keep in memory. Internal to this module.
#pragma once

#include <cstdint>

#include "lib/model/safetensors/network.h"

namespace hif8 {

struct MemoryPlan {
  // The next part's weights are read while one runs. Where there is no room for two, they are read
  // when the part before is gone.
  bool prefetch = true;
  // For each set of hidden states: what exceeds it goes to a temporary file.
  uint64_t hidden_states = 0;
};

// For `networks` (1, or 2 side by side) in runs of up to `rows` rows. `requantized`: each block
// runs once more with decoded weights. Nothing that is computed depends on the plan. Throws
// kEnvironment naming the part that does not fit even alone.
MemoryPlan PlanMemory(const Network& network, int64_t rows, int networks, bool requantized,
                      uint64_t limit);

}  // namespace hif8
