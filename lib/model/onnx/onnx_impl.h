// The inside of an OnnxModel. Internal to this folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/model/onnx/const_chain.h"
#include "lib/model/onnx/external_data.h"
#include "lib/model/onnx/inline_functions.h"
#include "lib/model/onnx/onnx_model.h"
#include "lib/model/onnx/onnx_proto.h"
#include "lib/model/onnx/scopes.h"

namespace hif8 {

// Locates a layer in its graph. Operands are input numbers of the node, -1: none.
struct LayerSite {
  int scope = -1;
  int node = -1;
  int weight_input = -1;
  int activation_input = -1;
  int second_input = -1;
  std::vector<ChainStep> steps;  // between the stored weight and the operand
  int elem_type = 0;             // of the weight operand and the activation
  std::string evaluable;         // weight operand that is constant but has to be computed
};

struct WeightSite {
  Definition source;
};

// An activation belongs to the graph in which layers read it, so that a branch that is not taken
// observes nothing.
struct ActivationSite {
  int scope = -1;
  std::string tensor;
  int elem_type = 0;
};

struct OnnxModel::Impl {
  explicit Impl(const std::filesystem::path& file) : path(file), files(file) {}

  std::filesystem::path path;
  onnx::ModelProto proto;
  DataFiles files;
  std::unique_ptr<Scopes> scopes;  // of proto
  int64_t stored_opset = 0;

  // The sites are parallel to the public lists.
  std::vector<Layer> layers;
  std::vector<LayerSite> layer_sites;
  std::vector<Weight> weights;
  std::vector<WeightSite> weight_sites;
  std::vector<Activation> activations;
  std::vector<ActivationSite> activation_sites;
  std::vector<GraphValue> inputs;
  std::vector<GraphValue> outputs;
  // Why the model cannot be run on data (an input that is no tensor, ...), or empty.
  std::string not_runnable;
  // Why a model of an old operator set could not be converted, or empty.
  std::string not_converted;
  FunctionProblems function_problems;
  uint64_t parameter_count = 0;

  const onnx::NodeProto& node(const LayerSite& site) const {
    return (*scopes)[site.scope].graph->node(site.node);
  }
  const onnx::TensorProto& tensor(const WeightSite& site) const {
    return scopes->Initializer(site.source);
  }
};

// Fills layers, weights and activations, and their sites.
void FindLayers(OnnxModel::Impl* model);
// Computes weights that are constant but not stored, and stores them; true when there were any: the
// layers must be found again.
bool EvaluateWeights(const ConstantEvaluator& evaluate, OnnxModel::Impl* model, LogSink& log);
// Fills the layers' multiply-adds where shapes are known.
void CountMacs(OnnxModel::Impl* model);

}  // namespace hif8
