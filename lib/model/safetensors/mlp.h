// The MLPs and experts of blocks as parts of their graphs. Internal to this module.
#pragma once

#include <string>

#include "lib/model/safetensors/block_emitter.h"
#include "lib/model/safetensors/decoder_spec.h"

namespace hif8 {

// Modules of an MLP; empty ones do not exist.
struct MlpNames {
  std::string prefix, gate, up, down, fused;
};

class MlpWriter {
 public:
  // The arguments must outlive the object.
  MlpWriter(const DecoderSpec& spec, BlockEmitter& emitter)
      : s_(spec), e_(emitter), g_(emitter.graph()) {}

  // Emits down(act(gate(x)) * up(x)); without a gate down(act(up(x))).
  std::string Write(const std::string& x, const MlpNames& names, int64_t width);
  // Emits an expert with one product for gate and up, [R, hidden] -> [R, hidden].
  std::string JointExpert(const std::string& rows);
  std::string Activated(const std::string& x);

 private:
  // act(gate) * up
  std::string Gated(const std::string& gate, const std::string& up);
  std::string Sigmoid(const std::string& x, double alpha);

  const DecoderSpec& s_;
  BlockEmitter& e_;
  GraphBuilder& g_;
};

}  // namespace hif8
