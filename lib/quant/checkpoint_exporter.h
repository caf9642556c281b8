// Writes safetensors checkpoints for the pipeline.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/model/safetensors/checkpoint.h"
#include "lib/model/safetensors/checkpoint_writer.h"
#include "lib/quant/config.h"
#include "lib/quant/exporter.h"

namespace hif8 {

class CheckpointExporter : public Exporter {
 public:
  // `formats` and `config`, the plan's recipe, must outlive the exporter. Finished shards of an
  // interrupted run are taken over when model and recipe are the same.
  CheckpointExporter(std::shared_ptr<const Checkpoint> checkpoint, const FormatRegistry& formats,
                     const QuantConfig& config)
      : checkpoint_(std::move(checkpoint)), formats_(formats), config_(config) {}

  bool Resumable() const override { return true; }
  bool Writes(int weight) const override;
  std::vector<std::string> Check(const QuantPlan& plan, bool simulated) const override;
  uint64_t Write(const ExportRequest& request, const std::filesystem::path& dir,
                 LogSink& log) const override;

 private:
  // `activations` as in ExportRequest; null: scales of 1.
  CheckpointPlan MakeCheckpointPlan(const QuantPlan& plan, bool simulated,
                                    const std::map<int, FakeQuantize>* activations) const;

  std::shared_ptr<const Checkpoint> checkpoint_;
  const FormatRegistry& formats_;
  const QuantConfig& config_;
};

}  // namespace hif8
