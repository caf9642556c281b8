// Parts of a checkpoint's network, ready to run. Internal to this module.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/core/log.h"
#include "lib/model/safetensors/block_emitter.h"
#include "lib/model/safetensors/checkpoint.h"
#include "lib/numeric/number_format.h"
#include "lib/runtime/activation_source.h"
#include "lib/runtime/session.h"

namespace hif8 {

struct PartSession {
  PartGraph part;
  std::unique_ptr<Session> session;

  // Returns the part's first output.
  Tensor Run(const NamedTensors& inputs) const { return session->Run(inputs).front(); }
  std::vector<Tensor> RunAll(const NamedTensors& inputs) const { return session->Run(inputs); }
};

// Sessions of one kind of part, one for every set of options that occurs.
class PartSessions {
 public:
  using Describe = std::function<PartGraph(PartOptions)>;

  PartSessions(Describe describe, const FormatRegistry& formats, TapSink* taps, LogSink* log)
      : describe_(std::move(describe)), formats_(formats), taps_(taps), log_(log) {}

  const PartSession& Get(const PartOptions& options);

 private:
  Describe describe_;
  const FormatRegistry& formats_;
  TapSink* taps_;
  LogSink* log_;
  std::map<std::string, PartSession> sessions_;
};

// Every kind of part that a decoder has. `network` must outlive the object, as the others.
struct DecoderParts {
  DecoderParts(const Network& network, const FormatRegistry& formats, TapSink* taps, LogSink* log);

  PartSessions& Block(int64_t block);

  PartSessions fronts, experts, norms, heads;

 private:
  const Network& network_;
  const FormatRegistry& formats_;
  TapSink* taps_;
  LogSink* log_;
  std::map<BlockKind, PartSessions> blocks_;
};

// Rows [begin, end) of a tensor of the quantized network as fp32. Called by several threads.
using QuantizedRows =
    std::function<void(const std::string& tensor, int64_t begin, int64_t end, float* values)>;

// Reads what parts need, as fp32: several threads, large tensors in pieces.
class ConstantLoader {
 public:
  // `quantized` may be empty where only original tensors are asked for.
  ConstantLoader(const Checkpoint& checkpoint, QuantizedRows quantized)
      : checkpoint_(checkpoint), quantized_(std::move(quantized)) {}

  // Returns the constants of `parts` under the names of their graph inputs; `prefix` is put before
  // the tensors' names.
  NamedTensors Load(std::span<const PartGraph* const> parts, const std::string& prefix) const;
  // Reads rows [begin, end) of the original head's weight and bias.
  NamedTensors LoadHead(const Network& network, int64_t begin, int64_t end) const;
  // Rows [begin, end) of one tensor.
  Tensor LoadRows(const std::string& tensor, bool quantized, int64_t begin, int64_t end) const;

 private:
  const Checkpoint& checkpoint_;
  QuantizedRows quantized_;
};

// Returns the activations of a part that are quantized; they point into `quantized`, which is
// indexed like checkpoint.activations().
std::map<std::string, QuantizedInput> QuantizedInputs(
    const Checkpoint& checkpoint, const std::map<int, QuantizedActivation>& quantized,
    const std::string& prefix, const std::vector<PartLayer>& layers);

// Adds their scales and clips as inputs of the part's graph; they point into `quantized`.
void AddScales(const Checkpoint& checkpoint, const std::map<int, QuantizedActivation>& quantized,
               const PartGraph& part, const std::string& prefix, NamedTensors* inputs);

// Returns a tensor of fp32 values over memory that the caller keeps.
Tensor FloatTensor(std::span<const float> values, Shape shape);

}  // namespace hif8
