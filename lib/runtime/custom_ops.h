// The project's own operators for ONNX Runtime. Internal to this module.
#pragma once

#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/model/graph.h"
#include "lib/numeric/number_format.h"
#include "lib/numeric/tile_scaling.h"
#include "lib/runtime/ort_api.h"
#include "lib/runtime/tap_sink.h"

namespace hif8 {

// Says where the taps of one run report. The engine computes the nodes of a run, one after the
// other, in the thread that asked for it, so that they find it there.
struct TapRun {
  TapSink* sink = nullptr;        // may be null
  std::exception_ptr error = {};  // what the sink threw, because it cannot pass through the engine

  class Scope {
   public:
    explicit Scope(TapRun* run);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    TapRun* outer_;
  };
};

// Operators that one session or one library registers. Must outlive the session.
class CustomOps {
 public:
  // `api_version`: the one that the engine was asked for; it refuses operators of a later one.
  explicit CustomOps(uint32_t api_version) : api_version_(api_version) {}

  // Domain kTapDomain; Observe and Compare report to the TapRun of their thread.
  void AddTaps();
  // GatedDeltaRule of lib/model/graph.h.
  void AddGatedDeltaRule();
  // name(x, scale) -> x rounded to the grid of `format` at that scale, all fp32, as
  // NumberFormat::QuantizeDequantize does it. `scale` has one element or broadcasts against x.
  void AddQuantizeDequantize(const std::string& domain, const std::string& name,
                             const NumberFormat& format);

  // name(x, scale) -> the same with scales found in x: QuantizeDequantizeDynamic of lib/numeric
  // with the attributes of lib/model/graph.h; `scale` is one number, whose inverse is the global
  // scale.
  void AddDynamicQuantizeDequantize(const std::string& domain, const std::string& name,
                                    const NumberFormat& format);

  void Register(OrtSessionOptions* options) const;

 private:
  template <typename Op>
  void Add(const std::string& domain, std::shared_ptr<Op> op) {
    AddTo(domain, op.get());
    ops_.push_back(std::move(op));
  }
  void AddTo(const std::string& domain, const OrtCustomOp* op);

  uint32_t api_version_;
  std::vector<std::shared_ptr<void>> ops_;
  std::map<std::string, Ort::CustomOpDomain> domains_;
};

}  // namespace hif8
