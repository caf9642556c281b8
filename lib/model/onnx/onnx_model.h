// An ONNX model: what it is made of, where it can be quantized.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/core/log.h"
#include "lib/model/graph.h"
#include "lib/model/model.h"

namespace hif8 {

// The standard operator sets that are known here; what lies between them is only carried. Newer
// ones are carried, too, as far as the engine runs them.
inline constexpr int64_t kOldestOpset = 7;
inline constexpr int64_t kNewestOpset = 23;

struct OnnxLoadOptions {
  // Computes weights that the file does not store but makes of constants (gates that an exporter
  // put in another order, normalized weights). Without it such layers are unsupported. It is also
  // asked whether it runs an operator set above kNewestOpset; without it, any such set is taken,
  // and whoever runs the model is told.
  ConstantEvaluator evaluate = nullptr;
  // Tensors of at least so many bytes stay in the mapped file instead of being held in memory.
  uint64_t map_from_bytes = uint64_t{1} << 20;
};

// Layers are MatMul, Gemm, Conv and ConvTranspose (1 to 3 spatial dimensions) with a constant
// operand, LSTM, GRU and RNN (weights only: "name/W", "name/R"), and, when asked for, Gather on a
// constant table (option "embeddings") and MatMul of two computed tensors (option "attention"); in
// the graph and in the bodies of If, Loop and Scan. A weight is the stored tensor, also when
// Transpose, Reshape, Cast and the like stand between it and the layer.
//
// The file is mapped and must stay as it is while the model is in use.
class OnnxModel : public Model {
 public:
  struct Impl;  // defined in onnx_impl.h, for this folder only

  // Throws kModel when the file is missing, empty, truncated, no ONNX model, of an operator set
  // below kOldestOpset that cannot be converted or of one that the engine does not run, no
  // valid graph, or when external data is missing, too short or outside the model's folder.
  static std::unique_ptr<OnnxModel> Load(const std::filesystem::path& path, LogSink& log,
                                         const OnnxLoadOptions& options = {});
  ~OnnxModel() override;

  std::string_view kind() const override { return "onnx"; }
  const std::filesystem::path& path() const override;
  const std::vector<Layer>& layers() const override;
  const std::vector<Weight>& weights() const override;
  const std::vector<Activation>& activations() const override;
  uint64_t parameter_count() const override;
  // Valid as long as the model is.
  Tensor ReadWeight(int index) const override;
  Fingerprint ComputeFingerprint() const override;

  // Lists what a run needs data for (weights listed as inputs are none of them), and what it gives.
  const std::vector<GraphValue>& inputs() const;
  const std::vector<GraphValue>& outputs() const;
  int64_t opset() const;         // as it is used here
  int64_t stored_opset() const;  // as the file says; smaller when the model was converted

  const Impl& impl() const { return *impl_; }

 private:
  explicit OnnxModel(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace hif8
