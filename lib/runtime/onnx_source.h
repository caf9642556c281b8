// Runs an ONNX model over data.
#pragma once

#include <memory>

#include "lib/core/log.h"
#include "lib/model/onnx/onnx_model.h"
#include "lib/numeric/number_format.h"
#include "lib/runtime/activation_source.h"
#include "lib/runtime/dataset.h"

namespace hif8 {

struct OnnxSourceOptions {
  DataOptions calibration;  // without a source: Collect() is a usage error
  DataOptions evaluation;   // without a source: the calibration data
  // Formats whose rounding function is computed natively while measuring.
  const FormatRegistry* formats = nullptr;
};

// Opens and checks the data (see OpenDataset for its errors). `model` and `log` must outlive the
// result.
std::unique_ptr<ActivationSource> MakeOnnxSource(const OnnxModel& model,
                                                 const OnnxSourceOptions& options, LogSink& log);

}  // namespace hif8
