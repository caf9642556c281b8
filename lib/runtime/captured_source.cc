#include "lib/runtime/captured_source.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/interrupt.h"
#include "lib/model/safetensors/safetensors_file.h"
#include "lib/runtime/data_file.h"

namespace hif8 {
namespace {

namespace fs = std::filesystem;

class CapturedSource : public ActivationSource {
 public:
  CapturedSource(const Model& model, const fs::path& folder, size_t samples, LogSink& log)
      : model_(model), log_(log) {
    if (!fs::is_directory(folder)) {
      throw ModelError("captured activations: expected a folder of .safetensors files",
                       "give the folder that holds one file per sample", folder.string());
    }
    for (const fs::path& path : FolderEntries(folder)) {
      if (samples > 0 && files_.size() == samples) break;
      if (path.extension() == ".safetensors") files_.push_back(SafetensorsFile::Open(path));
    }
    if (files_.empty()) {
      throw ModelError("the folder holds no .safetensors file",
                       "samples/capture/ has a script that writes them", folder.string());
    }
    for (const Layer& layer : model.layers()) {
      if (layer.activation >= 0 && layer.weight >= 0) {
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

  uint64_t samples() const override { return files_.size(); }
  bool synthetic() const override { return false; }
  NetworkErrors network_errors() const override { return NetworkErrors::kNone; }

  Measurement Measure(const fs::path&, const std::map<int, QuantizedActivation>& quantized,
                      const LayerSet&) override {
    Measurement m;
    m.activation.resize(model_.activations().size());
    m.output.resize(model_.layers().size());
    m.accumulated.resize(model_.layers().size());
    m.samples = files_.size();
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
    return m;
  }

 private:
  // Every input once: layers that share one were captured with the same values.
  template <typename Visit>
  void ForEachTensor(const char* stage, const Visit& visit) {
    for (size_t i = 0; i < files_.size(); ++i) {
      CheckInterrupt();
      std::set<int> seen;
      for (const SafetensorsEntry& entry : files_[i]->tensors()) {
        const auto found = activation_of_layer_.find(entry.name);
        if (found == activation_of_layer_.end() || !seen.insert(found->second).second) continue;
        if (!IsFloat(entry.dtype)) {
          throw ModelError("tensor '" + entry.name + "': expected floats, found " +
                               std::string(DTypeName(entry.dtype)),
                           "save the activations as floats", files_[i]->path().string());
        }
        visit(found->second, files_[i]->Read(entry).view);
      }
      log_.Progress(stage, i + 1, files_.size());
    }
  }

  void WarnUnknown() {
    std::set<std::string> unknown;
    for (const auto& file : files_) {
      for (const SafetensorsEntry& entry : file->tensors()) {
        if (!activation_of_layer_.contains(entry.name)) unknown.insert(entry.name);
      }
    }
    if (unknown.empty()) return;
    log_.Warn(std::to_string(unknown.size()) + " captured tensors are no layer's input, '" +
              *unknown.begin() + "' for one; they are ignored");
  }

  const Model& model_;
  LogSink& log_;
  std::vector<std::shared_ptr<const SafetensorsFile>> files_;
  std::unordered_map<std::string, int> activation_of_layer_;
};

}  // namespace

std::unique_ptr<ActivationSource> MakeCapturedSource(const Model& model, const fs::path& folder,
                                                     size_t samples, LogSink& log) {
  return std::make_unique<CapturedSource>(model, folder, samples, log);
}

}  // namespace hif8
