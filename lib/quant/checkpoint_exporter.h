// Writes safetensors checkpoints for the pipeline.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "lib/model/safetensors/checkpoint.h"
#include "lib/model/safetensors/checkpoint_writer.h"
#include "lib/quant/exporter.h"

namespace hif8 {

class CheckpointExporter : public Exporter {
 public:
  // `formats` must outlive the exporter. `recipe` is the resolved recipe as text: finished shards
  // of an interrupted run are taken over when it and the model are the same.
  CheckpointExporter(std::shared_ptr<const Checkpoint> checkpoint, const FormatRegistry& formats,
                     std::string recipe)
      : checkpoint_(std::move(checkpoint)), formats_(formats), recipe_(std::move(recipe)) {}

  bool Resumable() const override { return true; }
  bool Writes(int weight) const override;
  void Check(const QuantPlan& plan, bool simulated) const override;
  uint64_t Write(const ExportRequest& request, const std::filesystem::path& dir,
                 LogSink& log) const override;

 private:
  // `activations` as in ExportRequest; null: scales of 1.
  CheckpointPlan MakeCheckpointPlan(const QuantPlan& plan, bool simulated,
                                    const std::map<int, FakeQuantize>* activations) const;

  std::shared_ptr<const Checkpoint> checkpoint_;
  const FormatRegistry& formats_;
  std::string recipe_;
};

}  // namespace hif8
