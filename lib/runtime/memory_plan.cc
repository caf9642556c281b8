#include "lib/runtime/memory_plan.h"

#include <algorithm>
#include <string>

#include "lib/core/memory.h"

namespace hif8 {
namespace {

// Of a part's weights as fp32.
uint64_t WeightBytes(const PartGraph& part) {
  uint64_t bytes = 0;
  for (const PartConstant& constant : part.constants) {
    bytes += ElementCount(constant.shape) * sizeof(float);
  }
  return bytes;
}

// What the engine holds at the same time while a block runs: scores before and after softmax, a few
// tensors as wide as each of the others; twice, because it takes memory in growing pieces.
uint64_t ActivationBytes(const DecoderSpec& spec, int64_t rows) {
  const int64_t head =
      spec.latent.kv_rank > 0 ? spec.latent.nope + spec.latent.rope : spec.head_dim;
  const int64_t mlp = std::max(spec.intermediate, spec.experts.shared);
  const int64_t row = 3 * spec.heads * rows + 8 * spec.hidden + 6 * mlp + 6 * spec.heads * head;
  return 2 * sizeof(float) * static_cast<uint64_t>(rows * row);
}

}  // namespace

MemoryPlan PlanMemory(const Network& network, int64_t rows, int networks, bool requantized,
                      uint64_t limit) {
  const DecoderSpec& spec = network.spec;
  uint64_t block = 0;
  int64_t largest = 0;
  for (int64_t b = 0; b < spec.blocks; ++b) {
    const uint64_t bytes = WeightBytes(network.Block(b, {}));
    if (bytes > block) largest = b;
    block = std::max(block, bytes);
  }
  const auto copies = static_cast<uint64_t>(networks);
  const bool has_experts = spec.experts.count > 0;
  const uint64_t expert = has_experts ? copies * WeightBytes(network.Expert({})) : 0;
  block = copies * block + (requantized ? block / sizeof(float) : 0);
  const uint64_t activations = copies * ActivationBytes(spec, rows);
  const uint64_t least = std::max(block, expert) + activations;
  RequireMemory(
      least, limit,
      block >= expert ? "block '" + network.BlockPrefix(largest) + "'" : "an expert of the network",
      SizeText(std::max(block, expert)) + " of weights in fp32, " + SizeText(activations) +
          " to run " + std::to_string(rows) + " rows");
  MemoryPlan plan;
  const uint64_t room = limit - kProgramMemory - activations;
  const uint64_t ahead = std::max(2 * block, block + 2 * expert);
  plan.prefetch = ahead <= room;
  const uint64_t rest = room - (plan.prefetch ? ahead : std::max(block, expert));
  // Blocks with experts have what their experts read beside what goes through.
  plan.hidden_states = rest / (copies * (has_experts ? 2 : 1));
  return plan;
}

}  // namespace hif8
