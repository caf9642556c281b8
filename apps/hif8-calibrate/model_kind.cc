#include "apps/hif8-calibrate/model_kind.h"

#include <filesystem>
#include <utility>

#include "formats/builtin.h"
#include "lib/core/error.h"
#include "lib/model/onnx/onnx_model.h"
#include "lib/model/safetensors/checkpoint.h"
#include "lib/quant/checkpoint_exporter.h"
#include "lib/quant/onnx_exporter.h"
#include "lib/runtime/captured_source.h"
#include "lib/runtime/checkpoint_source.h"
#include "lib/runtime/onnx_source.h"
#include "lib/runtime/session.h"
#include "lib/runtime/token_data.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;

DataOptions MakeDataOptions(const std::string& source, const DataConfig& config) {
  DataOptions data;
  data.source = source;
  data.samples = static_cast<size_t>(config.samples);
  data.batch = static_cast<size_t>(config.batch);
  data.drop_last = config.drop_last;
  data.image = config.image;
  return data;
}

// Weights that an exporter left to be computed are computed by the engine.
OnnxLoadOptions MakeLoadOptions() {
  OnnxLoadOptions options;
  options.evaluate = RunConstants;
  return options;
}

class OnnxKind : public ModelKind {
 public:
  OnnxKind(const std::string& path, const QuantConfig& config, const ParseContext& context,
           LogSink& log)
      : config_(config), context_(context), model_(OnnxModel::Load(path, log, MakeLoadOptions())) {}

  const Model& model() const override { return *model_; }

  std::unique_ptr<Exporter> MakeExporter() const override {
    return std::make_unique<OnnxExporter>(*model_, context_.formats);
  }

  std::unique_ptr<ActivationSource> OpenData(const std::string& data, const std::string& eval_data,
                                             LogSink& log) const override {
    if (data.empty() && eval_data.empty()) return nullptr;
    OnnxSourceOptions options;
    options.calibration = MakeDataOptions(data, config_.data);
    options.evaluation = MakeDataOptions(eval_data, config_.data);
    options.formats = &context_.formats;
    return MakeOnnxSource(*model_, options, log);
  }

  std::unique_ptr<ActivationSource> OpenCaptured(const std::string& folder, size_t /*samples*/,
                                                 LogSink& /*log*/) const override {
    throw UsageError("--activations: an ONNX model is run, found captured inputs for it",
                     "give --data", folder);
  }

 private:
  const QuantConfig& config_;
  const ParseContext& context_;
  std::unique_ptr<OnnxModel> model_;
};

class CheckpointKind : public ModelKind {
 public:
  // Scales from elsewhere are compared with the whole model's fingerprint.
  CheckpointKind(const ModelPlace& place, const QuantConfig& config, const ParseContext& context)
      : config_(config),
        context_(context),
        checkpoint_(Checkpoint::Open(place.path, StoredFormats(), place.part,
                                     !place.part || place.has_scales, OwnDescription(place),
                                     config.kv_cache_per_head)) {}

  const Model& model() const override { return *checkpoint_; }

  std::unique_ptr<Exporter> MakeExporter() const override {
    return std::make_unique<CheckpointExporter>(checkpoint_, context_.formats, config_);
  }

  std::unique_ptr<ActivationSource> OpenData(const std::string& data, const std::string& eval_data,
                                             LogSink& log) const override {
    if (data.empty() && eval_data.empty()) return nullptr;
    CheckpointSourceOptions options;
    if (!data.empty()) options.calibration = ReadData(data, log);
    if (!eval_data.empty()) options.evaluation = ReadData(eval_data, log);
    options.route_all = config_.experts.route_all;
    return std::make_unique<CheckpointSource>(checkpoint_, std::move(options), context_.formats,
                                              log);
  }

  std::unique_ptr<ActivationSource> OpenCaptured(const std::string& folder, size_t samples,
                                                 LogSink& log) const override {
    return MakeCapturedSource(checkpoint_, folder, samples, context_.formats, log);
  }

 private:
  static std::optional<Description> OwnDescription(const ModelPlace& place) {
    if (place.architecture.empty()) return std::nullopt;
    return ReadDescription(place.architecture);
  }

  TokenData ReadData(const std::string& path, LogSink& log) const {
    return checkpoint_->reads_images() ? ReadImages(path, log) : ReadTokens(path);
  }

  TokenData ReadImages(const std::string& path, LogSink& log) const {
    const ImageSpec& image = checkpoint_->network().spec.image;
    const GraphValue pixels{"pixel_values",
                            DType::kF32,
                            true,
                            {-1, image.channels, image.size, image.size},
                            {"", "", "", ""}};
    DataOptions options = MakeDataOptions(path, config_.data);
    options.batch = 1;
    options.leading = LeadingDimension::kBatch;
    TokenData data;
    data.source = path;
    data.images = OpenDataset(options, {&pixels, 1}, log);
    return data;
  }

  TokenData ReadTokens(const std::string& path) const {
    if (path.starts_with("random:")) {
      throw UsageError(
          "made-up samples are for ONNX models, found '" + path + "' for a language model",
          "give text or token ids; --recipe cast needs no data");
    }
    TextDataOptions options;
    options.samples = static_cast<size_t>(config_.data.samples);
    options.sequence_length = static_cast<size_t>(config_.data.sequence_length);
    options.tokenizer_dir = checkpoint_->path();
    return ReadTokenData(path, options);
  }

  const QuantConfig& config_;
  const ParseContext& context_;
  std::shared_ptr<const Checkpoint> checkpoint_;
};

}  // namespace

std::unique_ptr<ModelKind> OpenModel(const ModelPlace& place, QuantConfig* config,
                                     const ParseContext& context, LogSink& log) {
  const std::string& path = place.path;
  std::error_code unreadable;  // the reader says why
  const bool folder = fs::is_directory(path, unreadable);
  if (!folder && fs::path(path).extension() != ".safetensors") {
    if (!place.architecture.empty()) {
      throw UsageError("--architecture: an ONNX model has its graph in itself",
                       "leave it out; it is for checkpoints");
    }
    if (place.part) {
      throw UsageError("--shards: an ONNX model is not written in parts",
                       "leave it out; it is for checkpoints of many files");
    }
    return std::make_unique<OnnxKind>(path, *config, context, log);
  }
  const Calibrator* const rule = context.rules.Find(config->activations.rule);
  if (!folder && !place.has_scales && rule != nullptr && rule->traits().needs_data) {
    log.Info("a bare .safetensors file without data: only the weights are quantized");
    config->activations.rule = kRuleOff;
  }
  return std::make_unique<CheckpointKind>(place, *config, context);
}

}  // namespace hif8
