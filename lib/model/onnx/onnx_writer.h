// Writes a quantized ONNX model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/core/log.h"
#include "lib/model/onnx/onnx_model.h"
#include "lib/numeric/fake_quantize.h"
#include "lib/numeric/number_format.h"

namespace hif8 {

struct OnnxWritePlan {
  // True for layers, by index into layers(), whose weight and activations with a scale are
  // quantized.
  std::vector<bool> quantized;
  // Rounds activations, by index into activations(); those not in it are not quantized.
  std::map<int, FakeQuantize> activations;
  // The codes of weights()[index]. Called once for every weight of a quantized layer, in rising
  // order.
  std::function<EncodedWeight(int index)> encode;
  // Decoded weights in the model's own types; no functions, activations as they were.
  bool simulated = false;
  // Functions' bodies in the place of their calls, for runtimes that know no functions.
  bool inlined = false;
  // Added to the model's own metadata; an entry of the same key is replaced.
  std::vector<std::pair<std::string, std::string>> metadata;
  // Models with at least so many bytes of constants keep them in model.onnx.data.
  uint64_t external_from_bytes = 1'800'000'000;
};

struct OnnxWritten {
  std::filesystem::path model;
  std::filesystem::path data;  // empty when everything is in the model
  uint64_t bytes = 0;          // of both
};

// Writes model.onnx (and model.onnx.data) into `folder`, which exists. The network, its inputs,
// outputs and names stay; a quantized weight that other nodes read as well is stored in both forms.
// Throws kModel when the model cannot carry what is asked for, kEnvironment when writing fails.
OnnxWritten WriteOnnxModel(const OnnxModel& model, const OnnxWritePlan& plan,
                           const FormatRegistry& formats, const std::filesystem::path& folder,
                           LogSink& log);

// The weights of a written model.
class OnnxArtifact {
 public:
  // Loads folder/model.onnx.
  static std::unique_ptr<OnnxArtifact> Open(const std::filesystem::path& folder,
                                            const FormatRegistry& formats);
  ~OnnxArtifact();

  // True when the weight of that name in the source model is written as codes.
  bool HasCodes(const std::string& weight) const;
  // Codes and scales as they are in the file. Throws kModel when there are none or they do not fit
  // together.
  EncodedWeight ReadCodes(const std::string& weight) const;
  // Returns the decoded values that stand in the place of a weight in a simulated model; valid as
  // long as the artifact is.
  Tensor ReadValues(const std::string& weight) const;

 private:
  struct Impl;
  explicit OnnxArtifact(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hif8
