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
};

// A folder or .safetensors file is a checkpoint, everything else an ONNX model. `has_scales`:
// something was given that activation scales can come from; a bare .safetensors file without it is
// quantized weight-only, and `config` is changed to say so. `config`, `context` and `log` must
// outlive the result.
// `part`: only these files are to be written. Throws kUsage for a part of an ONNX model.
std::unique_ptr<ModelKind> OpenModel(const std::string& path, bool has_scales,
                                     std::optional<CheckpointPart> part, QuantConfig* config,
                                     const ParseContext& context, LogSink& log);

}  // namespace hif8
