// The interface between the pipeline and what writes a model in its own kind of file.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/core/log.h"
#include "lib/model/model.h"
#include "lib/model/written_weight.h"
#include "lib/numeric/fake_quantize.h"
#include "lib/quant/plan.h"

namespace hif8 {

// The quantized weights of a written model.
class WrittenWeights {
 public:
  virtual ~WrittenWeights() = default;
  // Codes and scales of a weight of the plan as they stand in the files.
  virtual WrittenWeight Read(int weight) const = 0;
};

struct ExportRequest {
  const QuantPlan& plan;
  // Holds every activation of the plan, by index into Model::activations().
  const std::map<int, FakeQuantize>& activations;
  // Solves and encodes a weight of the plan. May be called from several threads, once per weight.
  const std::function<EncodedWeight(int)>& encode;
  // Decoded weights in the model's own types instead of codes; activations stay as they are.
  bool simulated = false;
  // Standard operators instead of functions, in an ONNX model.
  bool inlined = false;
  // Told which weights stand in a file that is finished, also in one of an interrupted run: of each
  // weight of the plan that is written, once, while the writing goes on; may be empty.
  std::function<void(std::shared_ptr<const WrittenWeights>, std::vector<int>)> finished = {};
};

class Exporter {
 public:
  virtual ~Exporter() = default;
  // True when Write takes over the finished files of an interrupted run that it finds in `dir`.
  virtual bool Resumable() const { return false; }
  // True when what is written has functions, which ExportRequest::inlined is about.
  virtual bool HasFunctions() const { return false; }
  // False for a weight that is left to another part of the model (--shards).
  virtual bool Writes(int /*weight*/) const { return true; }
  // Throws kModel or kUsage, naming the recipe's lines, for what of the plan cannot be written,
  // before the long work. Returns what a user should know about what is written, one sentence
  // each. `simulated` is that of the request.
  virtual std::vector<std::string> Check(const QuantPlan& /*plan*/, bool /*simulated*/) const {
    return {};
  }
  // Writes every file of the quantized model below `dir`, which exists. Returns the size of those
  // that hold tensors.
  virtual uint64_t Write(const ExportRequest& request, const std::filesystem::path& dir,
                         LogSink& log) const = 0;
};

}  // namespace hif8
