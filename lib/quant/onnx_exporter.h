// Writes ONNX models for the pipeline.
#pragma once

#include <memory>

#include "lib/model/onnx/onnx_model.h"
#include "lib/quant/exporter.h"

namespace hif8 {

class OnnxExporter : public Exporter {
 public:
  // Both must outlive the exporter.
  OnnxExporter(const OnnxModel& model, const FormatRegistry& formats)
      : model_(model), formats_(formats) {}

  bool HasFunctions() const override { return true; }
  uint64_t Write(const ExportRequest& request, const std::filesystem::path& dir,
                 LogSink& log) const override;

 private:
  const OnnxModel& model_;
  const FormatRegistry& formats_;
};

}  // namespace hif8
