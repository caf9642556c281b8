// Weights that are constant but have to be computed.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "lib/core/error.h"
#include "lib/model/onnx/onnx_impl.h"
#include "lib/model/onnx/runnable.h"
#include "lib/model/onnx/types.h"
#include "lib/model/onnx/unique_names.h"
#include "lib/model/onnx/uses.h"

namespace hif8 {
namespace {

// The part of a model that computes some of its constants, as a graph of its own.
class ConstantGraph {
 public:
  explicit ConstantGraph(const OnnxModel::Impl& model) : scopes_(*model.scopes) {
    result_.set_ir_version(std::max<int64_t>(model.proto.ir_version(), 4));
    *result_.mutable_opset_import() = model.proto.opset_import();
    *result_.mutable_functions() = model.proto.functions();
    result_.mutable_graph()->set_name("constants");
  }

  void AddOutput(int scope, const std::string& name) {
    Add(scope, name);
    result_.mutable_graph()->add_output()->set_name(name);
  }
  onnx::ModelProto& result() { return result_; }
  // Number of elements of all stored tensors in it.
  uint64_t stored_elements() const { return stored_elements_; }

 private:
  void Add(int scope, const std::string& name) {
    if (name.empty()) return;
    const Definition at = scopes_.Find(scope, name);
    if (!added_.emplace(at.scope, name).second) return;
    if (at.kind == Definition::Kind::kInitializer) {
      const onnx::TensorProto& tensor = scopes_.Initializer(at);
      *result_.mutable_graph()->add_initializer() = tensor;
      stored_elements_ += ElementCount(TensorShape(tensor));
      return;
    }
    const onnx::NodeProto& node = scopes_.Node(at);
    for (const std::string& output : node.output()) added_.emplace(at.scope, output);
    for (const std::string& input : node.input()) Add(at.scope, input);
    *result_.mutable_graph()->add_node() = node;
  }

  const Scopes& scopes_;
  onnx::ModelProto result_;
  std::set<std::pair<int, std::string>> added_;
  uint64_t stored_elements_ = 0;
};

// Removes nodes and initializers that nothing reads any more, in the scopes of constants that were
// replaced. Only what came before a replaced value can be left over.
void RemoveUnused(onnx::ModelProto* model, const std::set<std::string>& candidates) {
  for (bool again = true; again;) {
    again = false;
    const Scopes scopes(model->mutable_graph());
    const Uses uses(scopes);
    for (int scope = 0; scope < static_cast<int>(scopes.size()); ++scope) {
      onnx::GraphProto* graph = scopes[scope].graph;
      const auto unused = [&](const std::string& name) {
        return candidates.contains(name) && uses.Of(scope, name).empty();
      };
      auto* nodes = graph->mutable_node();
      const int count = nodes->size() + graph->initializer_size();
      nodes->erase(std::remove_if(nodes->begin(), nodes->end(),
                                  [&](const onnx::NodeProto& node) {
                                    return node.output_size() > 0 &&
                                           std::all_of(node.output().begin(), node.output().end(),
                                                       unused);
                                  }),
                   nodes->end());
      auto* tensors = graph->mutable_initializer();
      tensors->erase(
          std::remove_if(tensors->begin(), tensors->end(),
                         [&](const onnx::TensorProto& tensor) { return unused(tensor.name()); }),
          tensors->end());
      again = again || nodes->size() + graph->initializer_size() != count;
      if (again) break;  // the maps point to what has moved
    }
  }
}

// A value that was computed.
struct Computed {
  Definition at;
  std::string name;
  DType dtype;
  Tensor values;
};

// The values under the name, instead of the node's result, which is called `unused` from now on.
void Replace(const Scopes& scopes, const Computed& computed, const std::string& unused) {
  onnx::GraphProto* graph = scopes[computed.at.scope].graph;
  Tensor own = computed.values;
  if (own.view.dtype != computed.dtype) {  // bf16 is computed in fp32
    std::vector<float> buffer;
    const std::span<const float> floats = AsFloats(own.view, &buffer);
    std::byte* bytes = nullptr;
    Tensor narrow = Tensor::Allocate(computed.dtype, own.view.shape, &bytes);
    ConvertFromFloat(computed.dtype, floats.data(), floats.size(), bytes);
    own = narrow;
  }
  *graph->add_initializer() =
      MakeTensor(computed.name, own.view.shape, computed.dtype, own.view.data);
  for (std::string& output : *graph->mutable_node(computed.at.index)->mutable_output()) {
    if (output == computed.name) output = unused;
  }
}

// Runs the part of the model that makes the value; nothing when that does not give a weight.
std::optional<Computed> Compute(const ConstantEvaluator& evaluate, const OnnxModel::Impl& model,
                                const Definition& at, const std::string& name,
                                std::set<std::string>* inside, LogSink& log) {
  ConstantGraph graph(model);
  graph.AddOutput(at.scope, name);
  Computed computed{at, name, DType::kF32, {}};
  try {
    std::vector<Tensor> values = evaluate(PackGraph(model.files, graph.result()));
    if (values.size() != 1 || !IsFloat(values[0].view.dtype)) return std::nullopt;
    computed.values = std::move(values[0]);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kModel) throw;
    log.Debug("weight '" + name + "' could not be computed: " + error.message());
    return std::nullopt;
  }
  // A tensor made of next to nothing (a filled one) is better left to the graph.
  if (computed.values.view.size() > 2 * graph.stored_elements()) return std::nullopt;
  computed.dtype = computed.values.view.dtype;
  ToDType(ElementTypes(*model.scopes).Find(at.scope, name), &computed.dtype);
  for (const onnx::NodeProto& node : graph.result().graph().node()) {
    inside->insert(node.output().begin(), node.output().end());
  }
  for (const onnx::TensorProto& tensor : graph.result().graph().initializer()) {
    inside->insert(tensor.name());
  }
  return computed;
}

}  // namespace

bool EvaluateWeights(const ConstantEvaluator& evaluate, OnnxModel::Impl* model, LogSink& log) {
  std::map<std::pair<int, std::string>, Definition> wanted;
  for (const LayerSite& site : model->layer_sites) {
    if (site.evaluable.empty()) continue;
    const Definition at = model->scopes->Find(site.scope, site.evaluable);
    wanted.emplace(std::pair(at.scope, site.evaluable), at);
  }
  std::vector<Computed> found;
  std::set<std::string> inside;  // names of values that may be left over
  for (const auto& [key, at] : wanted) {
    std::optional<Computed> computed = Compute(evaluate, *model, at, key.second, &inside, log);
    if (computed) found.push_back(std::move(*computed));
  }
  if (found.empty()) return false;
  UniqueNames names;
  names.ReserveAll(model->proto.graph());
  for (const Computed& computed : found) inside.erase(computed.name);
  for (const Computed& computed : found) {
    const std::string unused = names.Make(computed.name + "_computed");
    inside.insert(unused);
    Replace(*model->scopes, computed, unused);
  }
  RemoveUnused(&model->proto, inside);
  model->scopes = std::make_unique<Scopes>(model->proto.mutable_graph());
  model->layers.clear();
  model->layer_sites.clear();
  model->weights.clear();
  model->weight_sites.clear();
  model->activations.clear();
  model->activation_sites.clear();
  return true;
}

}  // namespace hif8
