// A graph loaded into ONNX Runtime.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/core/log.h"
#include "lib/core/tensor.h"
#include "lib/model/graph.h"
#include "lib/numeric/number_format.h"
#include "lib/runtime/named_tensors.h"
#include "lib/runtime/tap_sink.h"

namespace hif8 {

// An operator name(x, scale) that is computed by a number format's QuantizeDequantize instead of
// the model-local function of that name; or, `dynamic`, name(x) with scales found in x.
struct NativeOperator {
  std::string domain;
  std::string name;
  const NumberFormat* format = nullptr;  // must outlive the session
  bool dynamic = false;
};

struct SessionOptions {
  int threads = 0;  // 0: as lib/core/parallel.h says
  // No other session takes turns with this one: its threads may wait for the next node without
  // giving their processors away, where they would only be in another's way.
  bool alone = false;
  LogSink* log = nullptr;   // what the engine complains about; null: nowhere
  TapSink* taps = nullptr;  // for runs that are given none; null: taps report nothing
  std::vector<NativeOperator> operators;
};

class Session {
 public:
  // Throws kModel when the graph is invalid or holds an operator that the engine has not,
  // kEnvironment when there is no usable engine or no memory. `log` and `taps` must outlive the
  // session.
  Session(const RunnableGraph& graph, const SessionOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const std::vector<std::string>& input_names() const;
  const std::vector<std::string>& output_names() const;

  // Runs the graph once; several threads may each have one at a time, with taps of their own (null:
  // those of the options). Tensors under other names than the graph's inputs are ignored. Returns
  // the outputs in the graph's order; they own their memory, which is the engine's. An output that
  // is no tensor, or of an element type without a DType, has a null owner. Throws kModel when the
  // engine refuses the data, kInterrupted, and whatever a tap threw.
  std::vector<Tensor> Run(const NamedTensors& inputs, TapSink* taps = nullptr);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Runs a graph without inputs once. Throws as Session does.
std::vector<Tensor> RunConstants(const RunnableGraph& graph);

// Returns "1.29.0"; kEnvironment when there is no usable engine.
std::string EngineVersion();

}  // namespace hif8
