#include "lib/runtime/captured_source.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/interrupt.h"
#include "lib/model/safetensors/linear_graph.h"
#include "lib/model/safetensors/safetensors_file.h"
#include "lib/model/safetensors/written_checkpoint.h"
#include "lib/runtime/data_file.h"
#include "lib/runtime/layer_runner.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;

class CapturedSource : public ActivationSource {
 public:
  CapturedSource(std::shared_ptr<const Checkpoint> checkpoint, const fs::path& folder,
                 size_t samples, const FormatRegistry& formats, LogSink& log)
      : checkpoint_(std::move(checkpoint)), model_(*checkpoint_), formats_(formats), log_(log) {
    if (!fs::is_directory(folder)) {
      throw ModelError("captured activations: expected a folder of .safetensors files",
                       "give the folder that holds one file per sample", folder.string());
    }
    for (const fs::path& path : FolderEntries(folder)) {
      if (samples > 0 && samples_.size() == samples) break;
      Sample sample;
      const bool whole = fs::is_directory(path);
      for (const fs::path& file : whole ? FolderEntries(path) : std::vector<fs::path>{path}) {
        if (file.extension() == ".safetensors") sample.push_back(SafetensorsFile::Open(file));
      }
      if (!sample.empty()) samples_.push_back(std::move(sample));
    }
    if (samples_.empty()) {
      throw ModelError("the folder holds no .safetensors file",
                       "samples/capture/ has a script that writes them", folder.string());
    }
    for (const Layer& layer : model_.layers()) {
      if (layer.activation >= 0 && (layer.weight >= 0 || layer.kind == LayerKind::kCache)) {
        activation_of_layer_.emplace(layer.name, layer.activation);
      }
    }
    WarnUnknown();
  }

  std::vector<TensorStats> Collect(std::span<const int> wanted) override {
    const std::set<int> set(wanted.begin(), wanted.end());
    std::vector<TensorStats> stats(model_.activations().size());
    ForEachTensor("calibrate", [&](int activation, const TensorView& x) {
      if (!set.contains(activation)) return;
      stats[static_cast<size_t>(activation)].Add(x);
      if (observer()) observer()(activation, x, 1);
    });
    return stats;
  }

  uint64_t samples() const override { return samples_.size(); }
  bool synthetic() const override { return false; }
  NetworkErrors network_errors() const override { return NetworkErrors::kNone; }

  std::optional<RunnableGraph> LayerGraph(int layer) const override {
    return LinearGraph(*checkpoint_, layer);
  }

  Measurement Measure(const fs::path& written, const std::map<int, QuantizedActivation>& quantized,
                      const LayerSet& layers) override {
    Measurement m;
    m.activation.resize(model_.activations().size());
    m.output.resize(model_.layers().size());
    m.accumulated.resize(model_.layers().size());
    m.samples = samples_.size();
    std::vector<float> buffer;
    std::vector<float> rounded;
    ForEachTensor("measure", [&](int activation, const TensorView& tensor) {
      const auto found = quantized.find(activation);
      if (found == quantized.end()) return;
      const QuantizedActivation& q = found->second;
      const std::span<const float> x = AsFloats(tensor, &buffer);
      rounded.resize(x.size());
      const auto at = static_cast<size_t>(activation);
      ErrorMetrics& error = m.activation[at];
      q.how.Apply(model_.activations()[at].input_axis, tensor.shape, x, rounded);
      q.CountRange(x, &error);
      error.Add(x, rounded);
      if (q.visit) q.visit(tensor);
    });
    if (std::find(layers.begin(), layers.end(), true) != layers.end()) {
      const WrittenCheckpoint file(checkpoint_, written);
      for (size_t i = 0; i < layers.size(); ++i) {
        if (layers[i]) MeasureOutput(static_cast<int>(i), file, quantized, &m.output[i]);
      }
    }
    return m;
  }

 private:
  using Sample = std::vector<std::shared_ptr<const SafetensorsFile>>;

  // The layer's output from captured inputs: with its own weight, and with what was written and
  // rounded inputs.
  void MeasureOutput(int index, const WrittenCheckpoint& written,
                     const std::map<int, QuantizedActivation>& quantized, ErrorMetrics* error) {
    const Layer& layer = model_.layers()[static_cast<size_t>(index)];
    if (layer.weight < 0 || !captured_.contains(layer.activation)) return;
    const std::unique_ptr<LayerRunner> runner = LayerRunner::Make(*this, index);
    if (runner == nullptr) return;
    const CheckpointTensor& tensor = checkpoint_->tensor_of_weight(layer.weight);
    const Shape& shape = tensor.entry->shape;
    std::vector<float> weight(ElementCount(shape));
    std::vector<float> other(weight.size());
    checkpoint_->ReadRows(tensor, 0, shape.front(), weight.data());
    written.ReadRows(tensor.name(), formats_, 0, shape.front(), other.data());
    const auto input = quantized.find(layer.activation);
    const int axis = model_.activations()[static_cast<size_t>(layer.activation)].input_axis;
    std::vector<float> buffer;
    std::vector<float> rounded;
    ForEachTensor(nullptr, [&](int activation, const TensorView& x) {
      if (activation != layer.activation) return;
      const std::span<const float> values = AsFloats(x, &buffer);
      const auto width = static_cast<size_t>(shape.back());
      if (x.shape.empty() || x.shape.back() != shape.back()) {
        throw ModelError(
            "captured input of '" + layer.name + "': expected rows of " +
                std::to_string(shape.back()) + " values, found shape " + ShapeText(x.shape),
            "capture the input of the module with that weight", checkpoint_->path().string());
      }
      const Shape rows = {static_cast<int64_t>(values.size() / width), shape.back()};
      rounded.assign(values.begin(), values.end());
      if (input != quantized.end()) input->second.how.Apply(axis, x.shape, values, rounded);
      error->Add(runner->Run(values, rows, weight, shape),
                 runner->Run(rounded, rows, other, shape));
    });
  }

  // Every input once in a file: layers that share one were captured with the same values. Without a
  // `stage` nobody is told how far it is.
  template <typename Visit>
  void ForEachTensor(const char* stage, const Visit& visit) {
    for (size_t i = 0; i < samples_.size(); ++i) {
      CheckInterrupt();
      for (const auto& file : samples_[i]) {
        std::set<int> seen;
        for (const SafetensorsEntry& entry : file->tensors()) {
          const auto found = activation_of_layer_.find(entry.name);
          if (found == activation_of_layer_.end() || !seen.insert(found->second).second) continue;
          if (!IsFloat(entry.dtype)) {
            throw ModelError("tensor '" + entry.name + "': expected floats, found " +
                                 std::string(DTypeName(entry.dtype)),
                             "save the activations as floats", file->path().string());
          }
          visit(found->second, file->Read(entry).view);
        }
      }
      if (stage != nullptr) log_.Progress(stage, i + 1, samples_.size());
    }
  }

  void WarnUnknown() {
    std::set<std::string> unknown;
    for (const Sample& sample : samples_) {
      for (const auto& file : sample) {
        for (const SafetensorsEntry& entry : file->tensors()) {
          const auto found = activation_of_layer_.find(entry.name);
          if (found == activation_of_layer_.end()) unknown.insert(entry.name);
          if (found != activation_of_layer_.end()) captured_.insert(found->second);
        }
      }
    }
    if (unknown.empty()) return;
    log_.Warn(std::to_string(unknown.size()) + " captured tensors are no layer's input, '" +
              *unknown.begin() + "' for one; they are ignored");
  }

  std::shared_ptr<const Checkpoint> checkpoint_;
  const Model& model_;
  const FormatRegistry& formats_;
  LogSink& log_;
  std::vector<Sample> samples_;
  std::set<int> captured_;  // activations
  std::unordered_map<std::string, int> activation_of_layer_;
};

}  // namespace

std::unique_ptr<ActivationSource> MakeCapturedSource(std::shared_ptr<const Checkpoint> model,
                                                     const fs::path& folder, size_t samples,
                                                     const FormatRegistry& formats, LogSink& log) {
  return std::make_unique<CapturedSource>(std::move(model), folder, samples, formats, log);
}

}  // namespace hif8
