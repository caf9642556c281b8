// What differs between kinds of models: how they are opened, run and written.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lib/core/log.h"
#include "lib/model/model.h"
#include "lib/model/safetensors/checkpoint_part.h"
#include "lib/quant/config.h"
#include "lib/quant/exporter.h"
#include "lib/runtime/activation_source.h"

namespace hif8 {

class ModelKind {
 public:
  virtual ~ModelKind() = default;
  virtual const Model& model() const = 0;
  virtual std::unique_ptr<Exporter> MakeExporter() const = 0;
  // Data to gather statistics from and to measure on, either may be empty; null when both are.
  virtual std::unique_ptr<ActivationSource> OpenData(const std::string& data,
                                                     const std::string& eval_data,
                                                     LogSink& log) const = 0;
  // Opens captured inputs of layers (lib/runtime/captured_source.h), of `samples` samples (0: all).
  virtual std::unique_ptr<ActivationSource> OpenCaptured(const std::string& folder, size_t samples,
                                                         LogSink& log) const = 0;
};

struct ModelPlace {
  std::string path;
  std::string architecture;  // file with the description of a checkpoint's network, may be empty
  bool has_scales = false;   // something was given that activation scales can come from
  std::optional<CheckpointPart> part;  // only these files are to be written
};

// Opens a folder or .safetensors file as a checkpoint, all else as an ONNX model. A bare
// .safetensors file without scales is quantized weight-only, and `config` is changed to say so.
// `config`, `context` and `log` must outlive the result. Throws kUsage for a part or an
// architecture of an ONNX model.
std::unique_ptr<ModelKind> OpenModel(const ModelPlace& place, QuantConfig* config,
                                     const ParseContext& context, LogSink& log);

}  // namespace hif8
