// plan -> collect -> solve -> apply -> measure, for any kind of model.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/core/log.h"
#include "lib/model/model.h"
#include "lib/numeric/exponent_histogram.h"
#include "lib/quant/auto_precision.h"
#include "lib/quant/calibration_file.h"
#include "lib/quant/config.h"
#include "lib/quant/delayed_study.h"
#include "lib/quant/exporter.h"
#include "lib/quant/format_comparison.h"
#include "lib/quant/plan.h"
#include "lib/runtime/activation_source.h"

namespace hif8 {

struct PipelineOptions {
  std::filesystem::path output;  // empty: only statistics are gathered
  bool force = false;
  bool simulated = false;
  bool inlined = false;                         // an ONNX model without functions
  std::vector<std::filesystem::path> stats_in;  // replace the data pass; merged
  std::filesystem::path stats_out;              // empty: not saved
  std::filesystem::path calibration;            // a calibration.yaml instead of data; empty: none
  std::vector<FormatChoice> compare;            // to compare the plan's operands under
  std::optional<AutoGoal> auto_goal;            // keep layers until it holds
  bool delayed_study = false;                   // replay every rule of delayed scaling
};

// Tells what became of one weight, measured on the written file.
struct WeightResult {
  float amax = 0;
  float scale = 0;  // the one scale, when granularity is per tensor
  std::string scales_hash;
  std::string note;
  ErrorMetrics error;
  ScaledExponents exponents;
  uint64_t bytes_before = 0;
  uint64_t bytes_after = 0;  // codes and scales
};

struct PipelineResult {
  Fingerprint fingerprint;
  QuantConfig
      config;  // the recipe that makes this result; names the layers that were kept for a goal
  std::optional<AutoResult> automatic;  // with a goal: how it was sought; `met` as it was written
  QuantPlan plan;
  std::map<int, ActivationScale> activations;  // by index, like the plan's
  std::map<int, ScaledExponents> exponents;    // of activations that were observed
  std::map<int, WeightResult> weights;
  std::vector<ComparedOperand> comparisons;
  std::shared_ptr<DelayedStudy> delayed_study;  // null: not asked for
  Measurement measurement;                      // empty vectors when nothing was run
  Coverage coverage;
  uint64_t bytes_after = 0;  // of the written files that hold tensors; before: in `fingerprint`
  uint64_t calibration_samples = 0;
  bool synthetic = false;
  std::vector<std::string> unobserved;  // layers kept because no finite input was observed
  std::vector<std::string> warnings;
  std::map<std::string, double> seconds;  // by stage
};

// Holds what the pipeline works with.
struct PipelineInputs {
  const Model& model;
  const QuantConfig& config;
  const ParseContext& context;
  const Exporter& exporter;
  ActivationSource* source = nullptr;  // null: no data was given
};

// Runs the whole way. `finish` is called with the result and the folder that is about to appear, so
// that further files (the report) can be written into it; nothing is visible at options.output
// before it returns. Throws kModel when the plan quantizes nothing, kUsage when scales need data
// and none was given.
PipelineResult RunPipeline(
    const PipelineInputs& inputs, const PipelineOptions& options, LogSink& log,
    const std::function<void(const PipelineResult&, const std::filesystem::path&)>& finish);

}  // namespace hif8
