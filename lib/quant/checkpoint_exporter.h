// Writes safetensors checkpoints for the pipeline.
#pragma once

#include <memory>
#include <string>

#include "lib/model/safetensors/checkpoint.h"
#include "lib/quant/exporter.h"

namespace hif8 {

class CheckpointExporter : public Exporter {
 public:
  // `formats` must outlive the exporter. `fingerprint` covers whatever decides the codes (model and
  // resolved recipe): finished shards of an interrupted run are taken over when it is the same.
  CheckpointExporter(std::shared_ptr<const Checkpoint> checkpoint, const FormatRegistry& formats,
                     std::string fingerprint)
      : checkpoint_(std::move(checkpoint)),
        formats_(formats),
        fingerprint_(std::move(fingerprint)) {}

  bool Resumable() const override { return true; }
  bool Writes(int weight) const override;
  uint64_t Write(const ExportRequest& request, const std::filesystem::path& dir,
                 LogSink& log) const override;

 private:
  std::shared_ptr<const Checkpoint> checkpoint_;
  const FormatRegistry& formats_;
  std::string fingerprint_;
};

}  // namespace hif8
